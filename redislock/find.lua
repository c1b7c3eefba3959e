-- The place of the hold with the ID ARGV[1], lock ID ARGV[2] and token ARGV[3], or
-- nil. No ID is any, and token 0 is one that is not known.
local function find()
  local id, lock, token = ARGV[1], ARGV[2], ARGV[3] + 0
  for i = FIRST, record and #record or 0 do
    local h = record[i]
    if h[LOCK] == lock and (h[ID] == id or id == '') and (h[GRANTED] == token or token == 0) then
      return i
    end
  end
end
