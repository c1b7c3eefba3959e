-- The release of what is alone and as it was granted. A server without memory is left
-- to what follows.
local publish = sub(ARGV[1], 33)
if sub(ARGV[1], 1, 16) == '0000000000000000' then
  for i = 1, #KEYS do
    local key, mine = KEYS[i], ARGV[i + 1]
    local raw = not slow[key] and call('GET', key)
    if raw and #raw > 33 and byte(raw) == 70 and sub(raw, 18, 17 + #mine) == mine
      and tonumber(sub(raw, 2, 17))
      and not call('SET', key, 'I' .. sub(raw, 2, 33), 'KEEPTTL').err then
      call(publish, key, '') -- who may not publish may release all the same
      replies[i] = 1
    else
      slow[key], missing = true, true
    end
  end
  if not missing then
    return 1
  end
end
