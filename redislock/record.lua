-- What is not done yet needs the record as a whole. In a key it is { token, expires,
-- hold, hold, … } with a hold as an array of what is named below. A shared hold also has
-- the field "limit", the limit that it was asked with; without one that is not known. All
-- numbers are whole and below 2^53, which Lua, MessagePack and an integer of a reply
-- have exactly; times are microseconds since 1970. An end of 2^53 is none.
local ID, LOCK, MODE, GRANTED, END, DELAY, RELEASED, CREATED, RENEWED, DETAILS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NEVER = 9007199254740992
local retention = sub(ARGV[1], 1, 16) + 0
local slack = math.max(math.floor(retention / 32), 60000000)

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

-- Reads a record: the token, when the key expires, and the holds by lock ID. One that is
-- damaged is an error and stays as it is, whoever asks.
local function read(key)
  local raw = redis.call('GET', key)
  if not raw then
    return { token = 0, expires = NEVER, holds = {} }
  end
  local parts
  local kind = sub(raw, 1, 1)
  if kind == 'M' then
    parts = cmsgpack.unpack(sub(raw, 2))
  elseif kind == 'F' or kind == 'I' and #raw == 33 then
    local token = sub(raw, 18, 33) + 0
    parts = { token, sub(raw, 2, 17) + 0, kind == 'F' and fresh(sub(raw, 34), token, token) or nil }
  end
  if type(parts) ~= 'table' then
    error('DAMAGED it is no record', 0)
  end
  local r = { token = parts[1], expires = parts[2], holds = {}, exists = true }
  if not (r.token >= 0 and r.token < NEVER and r.expires > 0 and r.expires <= NEVER) then
    error('DAMAGED it has no token or does not say when it expires', 0)
  end
  for i = 3, #parts do
    local h = parts[i]
    if #h ~= 12 or #h[ID] ~= 24 or #h[LOCK] == 0 or r.holds[h[LOCK]]
      or h[MODE] ~= 0 and h[MODE] ~= 1 or h[RELEASED] ~= 0 and h[RELEASED] ~= 1
      or not (h[GRANTED] > 0 and h[GRANTED] < NEVER and h[END] > 0 and h[END] <= NEVER and h[DELAY] >= 0)
      or h.limit and not (h.limit >= 0 and h.limit < NEVER) then
      error('DAMAGED hold ' .. i - 2 .. ' is none', 0)
    end
    r.holds[h[LOCK]] = h
  end
  return r
end

-- A record as an array, and beside it the limits of its holds, -1 for one that is not
-- known: a reply has no fields with names.
local function parts_of(r)
  local parts, limits = { r.token, r.expires }, {}
  for _, h in pairs(r.holds) do
    parts[#parts + 1] = h
    limits[#limits + 1] = h.limit or -1
  end
  return parts, limits
end

-- When a hold stops blocking.
local function clear(h)
  if h[RELEASED] > 0 then
    return h[END]
  end
  return h[END] + h[DELAY]
end

-- Writes a record. The key stays as long as a hold may block, and for the retention
-- after that at least: the last token then lies that far behind the clock, so that
-- whatever comes after has a larger one. The slack is for how long an expiry can be kept,
-- and how much longer than the retention a key may stay, twice.
local function write(key, r)
  local last = math.max(now, r.token)
  for _, h in pairs(r.holds) do
    last = math.max(last, clear(h))
  end
  local keeps = r.expires < NEVER and r.expires >= last + retention and r.expires <= last + retention + 2 * slack
  if not keeps then
    r.expires = math.min(last + retention + slack, NEVER)
  end
  local set = { 'SET', key }
  if next(r.holds) then
    set[3] = 'M' .. cmsgpack.pack((parts_of(r)))
  else
    set[3] = format('I%016.0f%016.0f', r.expires, r.token)
  end
  if keeps then
    set[4] = 'KEEPTTL'
  elseif r.expires < NEVER then
    set[4], set[5] = 'PXAT', format('%.0f', math.ceil(r.expires / 1000))
  end
  local done = call(unpack(set))
  if not done.err then
    return
  end
  -- A server whose memory is full takes no SET, unless it comes after something
  -- that frees memory. A hold can thus be renewed and released all the same.
  if not string.find(done.err, 'OOM', 1, true) or redis.call('DEL', key) == 0 then
    error(done.err, 0)
  end
  r.expires = NEVER -- DEL forgets the expiry, too
  write(key, r)
end

-- Asks for a write that does nothing. A replica refuses it. Without it, a replica would
-- answer from what it has, which may be old.
local function refuse_replicas(key, r)
  local done = call('SET', key, '', r.exists and 'NX' or 'XX')
  if type(done) == 'table' and done.err and string.find(done.err, 'READONLY', 1, true) then
    error(done.err, 0)
  end
end
