-- What is not done yet needs the record as a whole: { token, until, hold, hold, … }
-- with a hold as an array of what is named below. A shared hold also has the field
-- "limit", the limit that it was asked with; without one that is not known. All
-- numbers are whole and below 2^53, which Lua, MessagePack and an integer of a reply
-- have exactly; times are microseconds since 1970. An end of 2^53 is none.
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
      or not (h[GRANTED] > 0 and h[GRANTED] < NEVER and h[END] > 0 and h[END] <= NEVER and h[DELAY] >= 0)
      or h.limit and not (h.limit >= 0 and h.limit < NEVER) then
      error('DAMAGED hold ' .. i - UNTIL .. ' is none', 0)
    end
  end
  return record
end

-- What is known of each key that is asked about: its record, and whether that has
-- changed. However often a key is asked about, it is read once and written once.
local known, opened = {}, {}
local function open(key)
  local k = known[key]
  if not k then
    k = {}
    known[key] = k
    opened[#opened + 1] = key
    local ok, record = pcall(read, key)
    if ok then
      k.record = record
    else
      k.failed = record
    end
  end
  if k.failed then
    error(k.failed, 0)
  end
  return k
end

-- A record without the holds that are false.
local function compact(record)
  local kept = { record[TOKEN], record[UNTIL] }
  for i = FIRST, #record do
    if record[i] then
      kept[#kept + 1] = record[i]
    end
  end
  return kept
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
-- after has a larger one. The slack is for how long an expiry can be kept, and how
-- much longer than the retention a key may stay, twice.
local function write(key, changed, retention)
  local slack = math.max(math.floor(retention / 32), 60000000)
  local last = math.max(now, changed[TOKEN])
  for i = FIRST, #changed do
    last = math.max(last, clear(changed[i]))
  end
  local keeps = changed[UNTIL] < NEVER and changed[UNTIL] >= last + retention and changed[UNTIL] <= last + retention + 2 * slack
  if not keeps then
    changed[UNTIL] = math.min(last + retention + slack, NEVER)
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

-- A replica would answer from what it has, which may be old, as long as nothing is
-- written. It refuses a SET, also one that would do nothing.
local function refuse_replicas(key, record)
  local done = call('SET', key, '', record and 'NX' or 'XX')
  if type(done) == 'table' and done.err and string.find(done.err, 'READONLY', 1, true) then
    error(done.err, 0)
  end
end
