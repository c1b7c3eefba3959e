-- A run of this script performs any number of operations, each on one key. KEYS has the
-- key of each of them. ARGV[1] has the retention and the command that publishes, and each
-- argument after it an operation, a letter with what it is told:
--
--   A  need, expiry, limit, own, hold        acquires: acquire.lua
--   N  TTL or 2^53, exact, name              renews: holds.lua, as all that follow
--   R  after, 0, name                        releases
--   L                                        reads
--   S                                        sweeps
--
-- Need is how long the key must stay, or 0 if the record must be MessagePack. Expiry is
-- how long it stays if it is new, in ms; all other durations are in µs. Limit 0 is none.
-- Own (0 or 1) says that the limits of others do not count. A name is the token, the hold
-- ID and the lock ID of a hold, zeros for what is not known. Flags have one digit, all
-- other numbers 16.
--
-- A key has one of
--   I expires token          nobody holds the resource
--   F expires token hold     one hold, as it was granted, exclusive or of a limit that
--                            is not known
--   M record                 holds, in MessagePack: record.lua
-- where token is the last one granted, and expires is when the key does, in microseconds
-- since 1970; 2^53 is never. A hold is
--   hold ID, lock ID, mode (0 exclusive, 1 shared), TTL, takeover delay, owner, host,
--   comment
-- and was granted at the time that its token is. Texts follow their length in 4 digits,
-- but a hold ID, which has 24 hex digits.
--
-- What comes here decides most operations by a few comparisons: the acquire of what
-- nobody holds, and the release of what one holds as it was granted. What follows it
-- would decide the same, and takes a server three times as long. Numbers are compared as
-- text where both have 16 digits. An expiry is set for longer than it must be, by the
-- slack, and kept, for to set it takes as long as to store a value. A key for which that
-- is not enough is slow.
local NONE = '0000000000000000' -- the number 0
local call, sub, byte, format = redis.pcall, string.sub, string.byte, string.format
local clock = redis.call('TIME')
local digits = clock[1] .. sub('00000' .. clock[2], -6)
local now = digits + 0
local replies, slow, missing = {}, {}, false
for i = 1, #KEYS do
  local key, q, done, reply = KEYS[i], ARGV[i + 1], nil, nil
  local operation, first = missing and slow[key] and 0 or byte(q), sub(q, 2, 17)
  if operation == 65 and first ~= NONE then -- A
    local raw = call('GET', key)
    if not raw then
      local expiry = sub(q, 18, 33) + 0
      done = call('SET', key, 'F' .. format('%016.0f', now + expiry * 1000) .. digits .. sub(q, 51), 'PX', expiry)
    elseif #raw == 33 and byte(raw) == 73 and sub(raw, 18) < digits then
      local expires = sub(raw, 2, 17)
      if (tonumber(expires) or 0) >= now + first then
        done = call('SET', key, 'F' .. expires .. digits .. sub(q, 51), 'KEEPTTL')
      end
    end
    reply = done and done.err or now -- a text is an error
  elseif operation == 82 and first == NONE then -- R
    local raw, mine = call('GET', key), sub(q, 19)
    if raw and #raw > 33 and byte(raw) == 70 and sub(raw, 18, 17 + #mine) == mine and tonumber(sub(raw, 2, 17)) then
      done = call('SET', key, 'I' .. sub(raw, 2, 33), 'KEEPTTL')
      if done.err then
        done = nil -- memory is full: what follows can release all the same
      else
        call(sub(ARGV[1], 17), key, '') -- who may not publish may release all the same
      end
    end
    reply = 1
  end
  if done then
    replies[i] = reply
  else
    slow[key] = true
  end
  missing = missing or not done or done.err
end
if not missing then
  if #KEYS == 1 then
    return replies[1] -- an array takes a server some microseconds
  end
  return replies
end
