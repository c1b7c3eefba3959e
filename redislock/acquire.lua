-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does, so that a repeat changes nothing. Returns the token, or the time and the
-- record that is in the way.
-- ARGV: hold ID, lock ID, mode (0 exclusive, 1 shared), limit or 0, TTL or 2^53,
-- takeover delay, owner, host, comment, retention in ms, and in ms how long the key
-- lives if the hold is alone
local lock, exclusive, limit = ARGV[2], ARGV[3] == '0', ARGV[4] + 0
record = record or { 0, 0 }
local token = record[TOKEN] + 1
local ahead = token > now -- of the clock, which was set back
if not ahead then
  token = now
end
local kept = { token, record[TOUCHED] }
for i = FIRST, #record do
  local h = record[i]
  if now < clear(h) then
    if exclusive or h[MODE] < 1 or h[LOCK] == lock then
      return { now, record }
    end
    kept[#kept + 1] = h
  end
end
local others = #kept - TOUCHED
if limit > 0 and others >= limit or token >= NEVER then
  return { now, record }
end
local ends = math.min(now + ARGV[5], NEVER)
kept[#kept + 1] = {
  ARGV[1], lock, exclusive and 0 or 1, token, ends, ARGV[6] + 0, 0, now, 0, ARGV[7], ARGV[8], ARGV[9],
}
if others > 0 or ahead or ends == NEVER then
  write(kept, ARGV[10])
else -- what write does, in less time
  kept[TOUCHED] = now
  redis.call('SET', KEYS[1], cmsgpack.pack(kept), 'PX', ARGV[11])
end
return token
