-- Does what is not done yet. A key that cannot be understood, or written, fails alone,
-- whatever else is asked about it. Its reply is a text: some clients take an error in an
-- array for one of the whole.
local rest = {}
for i = 1, #KEYS do
  if not replies[i] then
    rest[#rest + 1] = i
    local ok, reply = pcall(each, KEYS[i], ARGV[i + 1])
    if ok then
      replies[i] = reply
    else
      known[KEYS[i]].failed = reply
    end
  end
end
for _, key in ipairs(opened) do
  local k = known[key]
  local ok, failed = true, nil
  if k.failed then
    ok, failed = false, k.failed
  elseif k.changed then
    ok, failed = pcall(write, key, compact(k.record), retention)
  else
    ok, failed = pcall(refuse_replicas, key, k.record)
  end
  if not ok then
    k.failed = type(failed) == 'table' and failed.err or failed
  elseif k.publish then
    call(k.publish, key, '') -- who may not publish may release all the same
  end
end
for _, i in ipairs(rest) do
  replies[i] = known[KEYS[i]].failed or replies[i]
end
local alike = true
for i = 1, #KEYS do
  local reply = replies[i]
  -- Said as the reply as a whole, go-redis closes the connection, and the next one
  -- may lead to another server.
  if type(reply) == 'string' and string.find(reply, 'READONLY', 1, true) then
    return redis.error_reply('READONLY the server is a replica')
  end
  alike = alike and type(reply) == 'number' and reply == replies[1]
end
return alike and replies[1] or replies
