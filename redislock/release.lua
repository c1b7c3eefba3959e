-- Removes a hold, or lets it end after a while, and tells who waits.
-- ARGV: hold ID, lock ID, token, after in us, retention in ms, the command that
-- publishes
local r = read()
if r.damage then
  return { 'damaged', text(now), r.damage }
end
local i = find(r, ARGV[1], ARGV[2], tonumber(ARGV[3]))
if not i then
  return { 'missing', text(now) }
end
local h, after = r.holds[i], tonumber(ARGV[4])
if after > 0 and live(h) then
  h.ends, h.released = math.min(h.ends, now + after), true
  redis.call('HSET', key, 'touched', text(now), 'hold:' .. h.id, encode(h))
else
  table.remove(r.holds, i)
  redis.call('HSET', key, 'touched', text(now)) -- first, so that the key is never without a field
  redis.call('HDEL', key, 'hold:' .. h.id)
end
keep(r, tonumber(ARGV[5]))
redis.call(ARGV[6], key, '')
return { 'released', text(now) }
