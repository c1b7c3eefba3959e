-- What every script begins with. It is asked about any number of keys: ARGV[1] has what
-- is the same for all of them, and after it comes an argument for each key. The reply
-- is a number if it is the same for all, and otherwise an array, which takes a server
-- some microseconds.
--
-- A key has one of
--   I until token          nobody holds the resource
--   F until token hold     one hold, as it was granted
--   M record               holds, in MessagePack, see record.lua
-- where token is the last one granted, and until is when the key expires, in
-- microseconds since 1970; 2^53 is never. Both have 16 digits. An F hold is
--   hold ID, lock ID, mode (0 exclusive, 1 shared), TTL, takeover delay, owner, host,
--   comment
-- and was granted at the time that its token is. The texts follow their length in 4
-- digits, the durations are 16 digits of microseconds, and a hold ID has 24.
--
-- I and F are for most locks, which are alone: what to do about those is known from
-- a few comparisons, in a third of the time that it takes to understand a record.
-- Numbers are compared as text where both have 16 digits. An expiry is set for much
-- longer than is needed and kept, for to set it takes as long as to store a value.
local replies, missing = {}, false
local call, sub, byte = redis.pcall, string.sub, string.byte
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
-- What is not done yet needs the record as a whole: { token, until, hold, hold, … }
-- with a hold as an array of what is named below. All numbers are whole and below
-- 2^53, which Lua, MessagePack and an integer of a reply have exactly; times are
-- microseconds since 1970. An end of 2^53 is none.
local TOKEN, UNTIL, FIRST = 1, 2, 3
local ID, LOCK, MODE, GRANTED, END, DELAY, RELEASED, CREATED, RENEWED, DETAILS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NEVER = 9007199254740992

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A hold that is granted at a time, from the text that an F record has.
local function fresh(text, token, at)
  local length = sub(text, 25, 28) + 0
  local rest = 29 + length
  local h = {
    sub(text, 1, 24), sub(text, 29, rest - 1), sub(text, rest, rest) + 0, token,
    math.min(at + sub(text, rest + 1, rest + 16), NEVER), sub(text, rest + 17, rest + 32) + 0,
    0, at, 0,
  }
  rest = rest + 33
  for i = DETAILS, DETAILS + 2 do
    length = sub(text, rest, rest + 3) + 0
    h[i] = sub(text, rest + 4, rest + 3 + length)
    rest = rest + 4 + length
  end
  if rest ~= #text + 1 then
    error('attempt to read a hold that is longer or shorter', 0)
  end
  return h
end

-- The record that a key has, or nil. What is no record is left as it is,
-- whoever asks.
local function read(key)
  local raw = redis.call('GET', key)
  if not raw then
    return
  end
  local record
  local kind = sub(raw, 1, 1)
  if kind == 'M' then
    record = cmsgpack.unpack(sub(raw, 2))
  elseif kind == 'F' or kind == 'I' and #raw == 33 then
    record = { sub(raw, 18, 33) + 0, sub(raw, 2, 17) + 0 }
    if kind == 'F' then
      record[FIRST] = fresh(sub(raw, 34), record[TOKEN], record[TOKEN])
    end
  end
  if type(record) ~= 'table' then
    error('DAMAGED it is no record', 0)
  end
  if not (record[TOKEN] >= 0 and record[TOKEN] < NEVER and record[UNTIL] > 0 and record[UNTIL] <= NEVER) then
    error('DAMAGED it has no token or does not say when it expires', 0)
  end
  for i = FIRST, #record do
    local h = record[i]
    if #h ~= 12 or #h[ID] ~= 24 or #h[LOCK] == 0
      or h[MODE] ~= 0 and h[MODE] ~= 1 or h[RELEASED] ~= 0 and h[RELEASED] ~= 1
      or not (h[GRANTED] > 0 and h[GRANTED] < NEVER and h[END] > 0 and h[END] <= NEVER and h[DELAY] >= 0) then
      error('DAMAGED hold ' .. i - UNTIL .. ' is none', 0)
    end
  end
  return record
end

-- When a hold stops to block.
local function clear(h)
  if h[RELEASED] > 0 then
    return h[END]
  end
  return h[END] + h[DELAY]
end

-- The key stays as long as a hold may block, and for the retention after that at
-- least: the last token then lies that far behind the clock, so that whatever comes
-- after has a larger one.
local function write(key, changed, retention)
  local last = math.max(now, changed[TOKEN])
  for i = FIRST, #changed do
    last = math.max(last, clear(changed[i]))
  end
  local keeps = changed[UNTIL] < NEVER and changed[UNTIL] >= last + retention and changed[UNTIL] <= last + 4 * retention
  if not keeps then
    changed[UNTIL] = math.min(last + 2 * retention, NEVER)
  end
  local value
  if changed[FIRST] then
    value = 'M' .. cmsgpack.pack(changed)
  else
    value = string.format('I%016.0f%016.0f', changed[UNTIL], changed[TOKEN])
  end
  local done
  if keeps then
    done = call('SET', key, value, 'KEEPTTL')
  elseif changed[UNTIL] < NEVER then
    done = call('SET', key, value, 'PXAT', string.format('%.0f', math.ceil(changed[UNTIL] / 1000)))
  else
    done = call('SET', key, value)
  end
  if not done.err then
    return
  end
  -- A server whose memory is full takes no SET, unless it comes after something
  -- that frees memory. A hold can thus be renewed and released all the same.
  if not string.find(done.err, 'OOM', 1, true) or redis.call('DEL', key) == 0 then
    error(done.err, 0)
  end
  changed[UNTIL] = NEVER -- DEL forgets the expiry, too
  write(key, changed, retention)
end
-- The place of the hold with the token and the IDs in a text, or nil. A hold ID of
-- zeros is any, and token 0 is one that is not known.
local function find(record, text)
  local token, id, lock = sub(text, 1, 16) + 0, sub(text, 17, 40), sub(text, 45)
  local any = id == string.rep('0', 24)
  for i = FIRST, record and #record or 0 do
    local h = record[i]
    if h[LOCK] == lock and (any or h[ID] == id) and (token == 0 or h[GRANTED] == token) then
      return i
    end
  end
end
-- Removes a hold, or lets it end after a while, and tells who waits. The reply is
-- whether it was there.
-- For all: after, retention, 16 digits each, the command that publishes. For each:
-- token, hold ID and lock ID.
local after, retention = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 17, 32) + 0
local function each(key, hold)
  local record = read(key)
  local at = find(record, hold)
  if not at then
    return 0
  end
  local h = record[at]
  if after > 0 and now < h[END] then
    h[END], h[RELEASED] = math.min(h[END], now + after), 1
  else
    table.remove(record, at)
  end
  write(key, record, retention)
  call(publish, key, '')
  return 1
end
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
