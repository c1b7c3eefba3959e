-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does, so that a repeat changes nothing.
-- ARGV: hold ID, lock ID, mode, limit, TTL in us or inf, takeover delay in us,
-- details, retention in ms
local id, lock, mode, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local r = read()
local token = math.max(now, r.token + 1)
if r.damage or token > limit then
  return { 'damaged', text(now), r.damage or 'token' }
end
local shared, kept, gone = 0, {}, {}
for _, h in ipairs(r.holds) do
  if now >= clear(h) then
    gone[#gone + 1] = 'hold:' .. h.id
  elseif h.lock == lock or h.mode == 'x' or mode == 'x' then
    return { 'kept', text(now), r.fields }
  else
    shared = shared + 1
    kept[#kept + 1] = h
  end
end
if most > 0 and shared >= most then
  return { 'kept', text(now), r.fields }
end
local h = {
  id = id, mode = mode, ends = now + number(ARGV[5]), delay = tonumber(ARGV[6]), released = false, token = token,
  created = text(now), renewed = '0', lock = lock, details = ARGV[7],
}
drop(gone)
redis.call('HSET', key, 'token', text(token), 'touched', text(now), 'hold:' .. id, encode(h))
kept[#kept + 1] = h
r.holds, r.token = kept, token
keep(r, tonumber(ARGV[8]))
return { 'granted', text(now), text(token) }
