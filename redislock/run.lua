-- run.lua runs the operations that fast.lua left undecided. It reads each key once and
-- writes it at most once, however many operations are on it. A key that cannot be
-- understood or written fails alone. Its replies are texts: some clients take an error in
-- an array for the error of the whole reply.
local records, failed, rest = {}, {}, {}

local function try(key, f, ...)
  local ok, result = pcall(f, ...)
  if ok then
    return result
  end
  failed[key] = type(result) == 'table' and result.err or result
end

for i, key in ipairs(KEYS) do
  if not replies[i] then
    rest[#rest + 1] = i
    if not records[key] and not failed[key] then
      records[key] = try(key, read, key)
    end
    if not failed[key] then
      local q = ARGV[i + 1]
      replies[i] = try(key, operations[sub(q, 1, 1)], records[key], q)
    end
  end
end
for key, r in pairs(records) do
  if not failed[key] then
    try(key, r.changed and write or refuse_replicas, key, r)
  end
  if r.freed and not failed[key] then
    call(sub(ARGV[1], 17), key, '') -- as in fast.lua, its error does not count
  end
end
for _, i in ipairs(rest) do
  replies[i] = failed[KEYS[i]] or replies[i]
end
for _, reply in ipairs(replies) do
  -- If this error is the whole reply, go-redis closes the connection, and the next one may
  -- lead to another server.
  if type(reply) == 'string' and string.find(reply, 'READONLY', 1, true) then
    return redis.error_reply('READONLY the server is a replica')
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
