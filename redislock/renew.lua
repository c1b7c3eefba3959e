-- Moves the end of a live hold, never back unless exact. The reply is what is left of
-- it in µs, -1 if it has no end, or 0 if there is no such hold.
-- For all: retention, TTL or 2^53, 16 digits each, exact (0, 1). For each: token, hold
-- ID and lock ID.
local retention, ttl, exact = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 17, 32) + 0, sub(ARGV[1], 33) == '1'
local function each(key, hold)
  local k = open(key)
  local at = find(k, hold)
  local h = at and k.record[at]
  if not h or h[RELEASED] > 0 or now >= h[END] then
    return 0
  end
  local ends = math.min(now + ttl, NEVER)
  if exact or ends > h[END] then
    h[END] = ends
  end
  h[RENEWED] = now
  k.changed = true
  if h[END] == NEVER then
    return -1
  end
  return h[END] - now
end
