-- run.lua performs the operations that fast.lua left undecided. It reads each key once
-- and writes it at most once, however many operations are on it. If a key is damaged or
-- cannot be written, only the operations on it fail. Errors are returned as texts: some
-- clients take an error in an array for the error of the whole reply.
local rest = {} -- the indexes of these operations, by key

for i, key in ipairs(KEYS) do
  if not replies[i] then
    rest[key] = rest[key] or {}
    table.insert(rest[key], i)
  end
end

-- Performs the operations on a key. If only places have changed and they cannot be
-- written, it performs them again without places: an operation may have seen the place of
-- the one before.
local function run(key, indexes, unplaced)
  local r = read(key)
  r.unplaced = unplaced
  for _, i in ipairs(indexes) do
    local q = ARGV[i + 1]
    replies[i] = operations[sub(q, 1, 1)](r, q)
  end
  if not (r.changed or r.noted) then
    refuse_replicas(key, r)
  elseif not write(key, r) then
    return run(key, indexes, true)
  end
  if r.freed then
    call(sub(ARGV[1], 17), key, '') -- as in fast.lua, its error does not count
  end
end

for key, indexes in pairs(rest) do
  local ok, failure = pcall(run, key, indexes)
  for _, i in ipairs(ok and {} or indexes) do
    replies[i] = type(failure) == 'table' and failure.err or failure
  end
end
for _, reply in ipairs(replies) do
  -- If this error were the whole reply, go-redis would close the connection, and the next
  -- connection could lead to another server.
  if type(reply) == 'string' and string.find(reply, 'READONLY', 1, true) then
    return redis.error_reply('READONLY the server is a replica')
  end
end
if #KEYS == 1 then
  return replies[1]
end
return replies
