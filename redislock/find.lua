-- The place of the hold with the token and the IDs in a text, or nil. A hold ID of
-- zeros is any, and token 0 is one that is not known.
local function find(record, text)
  local token, id, lock = sub(text, 1, 16) + 0, sub(text, 17, 40), sub(text, 45)
  local any = id == string.rep('0', 24)
  for i = FIRST, record and #record or 0 do
    local h = record[i]
    if h[LOCK] == lock and (any or h[ID] == id) and (token == 0 or h[GRANTED] == token) then
      return i
    end
  end
end
