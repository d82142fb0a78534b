-- A table written and read by index.
local count = 0
for round = 1, 20 do
  local flags = {}
  for i = 2, 200000 do flags[i] = true end
  count = 0
  for i = 2, 200000 do
    if flags[i] then count = count + 1 for k = i + i, 200000, i do flags[k] = false end end
  end
end
print(count)
