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
-- The acquire of what nobody holds. An expiry that is kept is at most four times the
-- retention ahead.
local clock = redis.call('TIME')
local digits = clock[1] .. sub('00000' .. clock[2], -6)
local now = digits + 0
local first = sub(ARGV[1], 33, 48) + 0
if first > 0 then
  local need, expires = now + sub(ARGV[1], 17, 32), nil
  for i = 1, #KEYS do
    local key, done = KEYS[i], nil
    local raw = call('GET', key)
    if not raw then
      expires = expires or string.format('%016.0f', now + first * 1000)
      done = call('SET', key, 'F' .. expires .. digits .. ARGV[i + 1], 'PX', first)
    elseif #raw == 33 and byte(raw) == 73 and sub(raw, 18) < digits then
      local kept = sub(raw, 2, 17)
      if (tonumber(kept) or 0) >= need then
        done = call('SET', key, 'F' .. kept .. digits .. ARGV[i + 1], 'KEEPTTL')
      end
    end
    if not done then
      missing = true
    elseif done.err then
      replies[i], missing = done, true
    else
      replies[i] = now
    end
  end
  if not missing then
    return now
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
-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does, so that a repeat changes nothing. The reply is the token, or the time and the
-- record that is in the way.
-- For all: retention; for how long the key must stay, in µs, and, in ms, for how long
-- if it is new, or 0 if one of both is for ever; limit or 0; 16 digits each. For each:
-- a hold.
local retention, limit = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 49) + 0
local function each(key, hold)
  local record = read(key) or { 0, NEVER }
  local token = math.max(now, record[TOKEN] + 1)
  local mine = fresh(hold, token, now)
  local kept = { token, record[UNTIL] }
  for i = FIRST, #record do
    local h = record[i]
    if now < clear(h) then
      if mine[MODE] == 0 or h[MODE] == 0 or h[LOCK] == mine[LOCK] then
        return { now, record }
      end
      kept[#kept + 1] = h
    end
  end
  if limit > 0 and #kept - UNTIL >= limit or token >= NEVER then
    return { now, record }
  end
  kept[#kept + 1] = mine
  write(key, kept, retention)
  return token
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
