-- Moves the end of a live hold, never back unless exact.
-- ARGV: hold ID, lock ID, token, TTL in us or inf, exact, retention in ms
local r = read()
if r.damage then
  return { 'damaged', text(now), r.damage }
end
local h = r.holds[find(r, ARGV[1], ARGV[2], tonumber(ARGV[3]))]
if not h or h.released or not live(h) then
  return { 'lost', text(now) }
end
local ends = now + number(ARGV[4])
if ARGV[5] == '1' or ends > h.ends then
  h.ends = ends
end
h.renewed = text(now)
redis.call('HSET', key, 'touched', text(now), 'hold:' .. h.id, encode(h))
keep(r, tonumber(ARGV[6]))
return { 'renewed', text(now), text(h.ends) }
