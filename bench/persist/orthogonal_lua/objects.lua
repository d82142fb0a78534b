-- Methods, metatables, fields.
local Account = {}; Account.__index = Account
function Account.new(b) return setmetatable({ balance = b, log = {} }, Account) end
function Account:deposit(v) self.balance = self.balance + v; self.log[#self.log % 16 + 1] = v end
local all = {}
for i = 1, 1000 do all[i] = Account.new(i) end
for round = 1, 2500 do for i = 1, 1000 do all[i]:deposit(round) end end
local s = 0
for i = 1, 1000 do s = s + all[i].balance end
print(s)
