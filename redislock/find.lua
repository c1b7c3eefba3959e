-- The place in a record of the hold with the token and the IDs in a text, or nil. A
-- hold ID of zeros is any, and token 0 is one that is not known. A lock ID has one
-- hold at most. What is no longer there is false.
local function find(k, text)
  local record = k.record
  if not k.places then
    k.places = {}
    for i = FIRST, record and #record or 0 do
      k.places[record[i][LOCK]] = i
    end
  end
  local token, id, lock = sub(text, 1, 16) + 0, sub(text, 17, 40), sub(text, 45)
  local at = k.places[lock]
  local h = at and record[at]
  if h and (h[ID] == id or id == string.rep('0', 24)) and (token == 0 or h[GRANTED] == token) then
    return at
  end
end
