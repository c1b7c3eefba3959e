-- The place of the hold with the IDs in ARGV[1] and token ARGV[2], or nil. A hold ID
-- of zeros is any, and token 0 is one that is not known.
local function find()
  local id, lock, token = string.sub(ARGV[1], 1, 24), string.sub(ARGV[1], 29), ARGV[2] + 0
  local any = id == string.rep('0', 24)
  for i = FIRST, record and #record or 0 do
    local h = record[i]
    if h[LOCK] == lock and (any or h[ID] == id) and (token == 0 or h[GRANTED] == token) then
      return i
    end
  end
end
