-- Does what is not done yet. A key that cannot be understood fails alone.
local alike = true
for i = 1, #KEYS do
  if not replies[i] then
    local ok, reply = pcall(each, KEYS[i], ARGV[i + 1])
    if not ok then
      reply = redis.error_reply(type(reply) == 'table' and reply.err or reply)
    end
    replies[i] = reply
  end
  alike = alike and type(replies[i]) == 'number' and replies[i] == replies[1]
end
return alike and replies[1] or replies
