-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does, so that a repeat changes nothing. Returns the token, or the time and the
-- record that is in the way.
-- ARGV: hold ID and lock ID, the rest of the hold, limit or 0, for how long the key
-- must stay and, in ms, for how long if it is new, or 0 if one of both is for ever,
-- retention
record = record or { 0, NEVER }
local token = math.max(now, record[TOKEN] + 1)
local mine = fresh(ARGV[1] .. ARGV[2], token, now)
local kept, limit = { token, record[UNTIL] }, ARGV[3] + 0
for i = FIRST, #record do
  local h = record[i]
  if now < clear(h) then
    if mine[MODE] == 0 or h[MODE] == 0 or h[LOCK] == mine[LOCK] then
      return { now, record }
    end
    kept[#kept + 1] = h
  end
end
if limit > 0 and #kept - UNTIL >= limit or token >= NEVER then
  return { now, record }
end
kept[#kept + 1] = mine
write(kept, ARGV[6] + 0)
return token
