-- The release of what is alone and as it was granted. A server without memory is left
-- to what follows.
local publish = sub(ARGV[1], 33)
if sub(ARGV[1], 1, 16) == '0000000000000000' then
  for i = 1, #KEYS do
    local mine = ARGV[i + 1]
    local raw = call('GET', KEYS[i])
    if raw and #raw > 33 and byte(raw) == 70 and sub(raw, 18, 17 + #mine) == mine
      and tonumber(sub(raw, 2, 17))
      and not call('SET', KEYS[i], 'I' .. sub(raw, 2, 33), 'KEEPTTL').err then
      call(publish, KEYS[i], '') -- who may not publish may release all the same
      replies[i] = 1
    else
      missing = true
    end
  end
  if not missing then
    return 1
  end
end
