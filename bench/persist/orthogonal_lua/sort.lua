-- Strings: formatting, sorting, matching, counting bytes.
local seed = 42
local function random() seed = (seed * 1103515245 + 12345) % 2147483648 return seed end
local words = {}
for i = 1, 60000 do words[i] = ("%08x"):format(random()) end
table.sort(words)
local joined = table.concat(words, ",")
local count = 0
for word in joined:gmatch("%w+") do if word:find("^[0-7]") then count = count + #word:upper() end end
local hist = {}
for i = 1, #joined do local c = joined:byte(i); hist[c] = (hist[c] or 0) + 1 end
print(words[1], words[#words], count, hist[44])
