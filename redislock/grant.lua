-- The acquire of what nobody holds.
local clock = redis.call('TIME')
local digits = clock[1] .. string.sub('00000' .. clock[2], -6)
if ARGV[5] ~= '0' then
  if not raw then
    local ends = string.format('%016.0f', digits + ARGV[5] * 1000)
    redis.call('SET', KEYS[1], 'F' .. digits .. ends .. ARGV[1] .. ARGV[2], 'PX', ARGV[5])
    return digits
  end
  if #raw == 33 and string.byte(raw) == 73 and string.sub(raw, 2, 17) < digits
    and digits + ARGV[4] <= string.sub(raw, 18) + 0 then
    redis.call('SET', KEYS[1], 'F' .. digits .. string.sub(raw, 18) .. ARGV[1] .. ARGV[2], 'KEEPTTL')
    return digits
  end
end
