-- killed.lua ROUNDS: a number that depends on all that it did: tables with objects as keys, closures, coroutines,
-- strings, metatables, weak tables, errors. It commits in each round, where it runs in a store.
local commit = commit or function() end
local rounds = tonumber(arg[1])
local number = 17
local function mix(x) number = (number * 31 + x) % 1000000007 end
local squares = coroutine.wrap(function()
  for i = 1, math.maxinteger do coroutine.yield(i * i % 97) end
end)
local mt = {__index = function(_, key) return #key end, __add = function(a, b) return a.v + b.v end}
local objects, names, weak, adders = {}, {}, setmetatable({}, {__mode = "k"}), {}
for i = 1, rounds do
  local object = setmetatable({v = i}, mt)
  objects[#objects + 1] = object
  names[object] = "v" .. i
  weak[object] = i
  weak[{}] = i
  local sum = 0
  for j = 1, #objects, 7 do sum = sum + #names[objects[j]] + (objects[1] + objects[j]) end
  adders[i % 10 + 1] = function(x) sum = sum + x; return sum end
  for _, add in pairs(adders) do mix(add(i)) end
  mix(squares())
  mix(object.not_there)
  local words = {}
  for j = 1, 20 do words[j] = string.format("%d:%s", j * i, ("x"):rep(j)) end
  mix(#table.concat(words, ","))
  table.sort(words, function(a, b) if i % 7 == 0 then commit() end return a < b end)
  for j = 1, #words do mix(words[j]:byte(1)) end
  mix(math.mininteger + i * 4096 & 0xffff) -- looks like a pointer of the store
  if i % 50 == 0 then objects = table.move(objects, #objects // 2, #objects, 1, {}) end
  local fine, result = pcall(function() if i % 3 == 0 then error({i}) end; commit(); return i end)
  mix(fine and result or result[1])
  commit()
end
for object, i in pairs(weak) do
  if names[object] then assert(names[object] == "v" .. i) end
end
print(rounds, number)
