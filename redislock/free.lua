-- The release of a hold that is alone and as it was granted. A key that would stay
-- for too long after it is left to what follows, and so is a server without memory.
if raw and string.sub(raw, 1, 17) == ARGV[6] and string.sub(raw, 34, 33 + #ARGV[1]) == ARGV[1]
  and string.sub(raw, 18, 33) - string.sub(raw, 2, 17) <= 4 * ARGV[4] then
  local done = redis.pcall('SET', KEYS[1], 'I' .. string.sub(raw, 2, 33), 'KEEPTTL')
  if not done.err then
    redis.pcall(ARGV[5], KEYS[1], '') -- who may not publish may release all the same
    return 1
  end
end
