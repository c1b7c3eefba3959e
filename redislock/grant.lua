-- The acquire of what nobody holds. An expiry that is kept is further ahead than it
-- must be, for a while.
local clock = redis.call('TIME')
local digits = clock[1] .. sub('00000' .. clock[2], -6)
local now = digits + 0
local first = sub(ARGV[1], 33, 48) + 0
if first > 0 then
  local need, expires = now + sub(ARGV[1], 17, 32), nil
  for i = 1, #KEYS do
    local key, done = KEYS[i], nil
    local raw = slow[key] or call('GET', key)
    if not raw then
      expires = expires or string.format('%016.0f', now + first * 1000)
      done = call('SET', key, 'F' .. expires .. digits .. ARGV[i + 1], 'PX', first)
    elseif raw ~= true and #raw == 33 and byte(raw) == 73 and sub(raw, 18) < digits then
      local kept = sub(raw, 2, 17)
      if (tonumber(kept) or 0) >= need then
        done = call('SET', key, 'F' .. kept .. digits .. ARGV[i + 1], 'KEEPTTL')
      end
    end
    if not done then
      slow[key], missing = true, true
    elseif done.err then
      replies[i], missing = done.err, true
    else
      replies[i] = now
    end
  end
  if not missing then
    return now
  end
end
