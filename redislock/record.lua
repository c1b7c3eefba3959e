-- What every script begins with. The key has a MessagePack array,
--   { last token, when touched, hold, hold, … }
-- and a hold is an array of what is named below. Times are microseconds since 1970
-- and durations are microseconds: whole numbers below 2^53, which are exact in Lua,
-- in MessagePack and in an integer of a reply. An end of 2^53 is none.
local TOKEN, TOUCHED, FIRST = 1, 2, 3
local ID, LOCK, MODE, GRANTED, END, DELAY, RELEASED = 1, 2, 3, 4, 5, 6, 7
local RENEWED = 9 -- after when it was created; owner, host and comment follow
local NEVER = 9007199254740992

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local raw = redis.call('GET', KEYS[1])
local record = raw and cmsgpack.unpack(raw)

-- What is no record is left as it is, whoever asks.
if raw and type(record) ~= 'table' then
  return redis.error_reply('DAMAGED it is no array')
end
if record and not (record[TOKEN] >= 0 and record[TOKEN] < NEVER and record[TOUCHED] >= 0) then
  return redis.error_reply('DAMAGED it has no token or no time')
end
for i = FIRST, record and #record or 0 do
  local h = record[i]
  if #h ~= 12 or #h[ID] ~= 24 or #h[LOCK] == 0
    or h[MODE] ~= 0 and h[MODE] ~= 1 or h[RELEASED] ~= 0 and h[RELEASED] ~= 1
    or not (h[GRANTED] > 0 and h[GRANTED] < NEVER and h[END] > 0 and h[END] <= NEVER and h[DELAY] >= 0) then
    return redis.error_reply('DAMAGED hold ' .. i - TOUCHED .. ' is none')
  end
end

-- When a hold stops to block.
local function clear(h)
  if h[RELEASED] > 0 then
    return h[END]
  end
  return h[END] + h[DELAY]
end

-- Keeps the key as long as a hold may block, and for the retention after that, in
-- ms: the last token then lies that far behind the clock, so that whatever comes
-- after has a larger one.
local function write(changed, retention)
  local last = changed[TOKEN]
  for i = FIRST, #changed do
    last = math.max(last, clear(changed[i]))
  end
  changed[TOUCHED] = math.max(now, changed[TOUCHED] + 1)
  local value, done = cmsgpack.pack(changed)
  if last <= now then
    done = redis.pcall('SET', KEYS[1], value, 'PX', retention)
  elseif last < NEVER then
    done = redis.pcall('SET', KEYS[1], value, 'PXAT', string.format('%.0f', math.ceil(last / 1000) + retention))
  else
    done = redis.pcall('SET', KEYS[1], value)
  end
  if not done.err then
    return
  end
  -- A server whose memory is full takes no SET, unless it comes after something
  -- that frees memory. A hold can thus be renewed and released all the same.
  if not raw or not string.find(done.err, 'OOM', 1, true) then
    error(done.err, 0)
  end
  raw = nil
  redis.call('DEL', KEYS[1])
  write(changed, retention)
end
