-- Binary trees: allocation, collection, tables of two.
local function bottom(depth)
  if depth > 0 then depth = depth - 1
    return { bottom(depth), bottom(depth) }
  end
  return {}
end
local function check(tree) if tree[1] then return 1 + check(tree[1]) + check(tree[2]) end return 1 end
local total = 0
for i = 1, 60 do total = total + check(bottom(13)) end
print(total)
