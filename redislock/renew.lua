-- Moves the end of a live hold, never back unless exact. Returns what is left of it
-- in µs, -1 if it has no end, or 0 if there is no such hold.
-- ARGV: hold ID and lock ID, token, TTL or 2^53, exact (0, 1), retention
local at = find()
if not at then
  return 0
end
local h = record[at]
if h[RELEASED] > 0 or now >= h[END] then
  return 0
end
local ends = math.min(now + ARGV[3], NEVER)
if ARGV[4] == '1' or ends > h[END] then
  h[END] = ends
end
h[RENEWED] = now
write(record, ARGV[5] + 0)
if h[END] == NEVER then
  return -1
end
return h[END] - now
