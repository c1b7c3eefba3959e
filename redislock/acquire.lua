-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does, so that a repeat changes nothing. The reply is the token, or the time and the
-- record that is in the way.
-- For all: retention; for how long the key must stay, in µs, and, in ms, for how long
-- if it is new, or 0 if one of both is for ever; limit or 0; 16 digits each. For each:
-- a hold.
local retention, limit = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 49) + 0
local function each(key, hold)
  local record = read(key) or { 0, NEVER }
  local token = math.max(now, record[TOKEN] + 1)
  local mine = fresh(hold, token, now)
  local kept = { token, record[UNTIL] }
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
  write(key, kept, retention)
  return token
end
