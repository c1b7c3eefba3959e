-- record.lua reads and writes the record of a resource as a whole.
--
-- A request is a letter and its arguments:
--
--   A  need, expiry, limit, hold   acquires: fast.lua, acquire.lua
--   Q  need, expiry, limit, keep, lengths, fair, place, hold
--                                  acquires, or takes a place: fast.lua, acquire.lua
--   R  after, name [place]         releases: fast.lua, holds.lua
--   N  TTL or 2^53, name           renews: holds.lua
--   L                              reads: fast.lua, holds.lua
--   S                              sweeps: holds.lua
--
-- Need is how long the key must stay, or 0 if the record must be MessagePack. Expiry is
-- how long a new key stays, in ms. All other durations are in µs. Limit 0 means no limit.
-- A name is the token, the hold ID and the lock ID of a hold; zeros stand for an unknown
-- token or hold ID. Place is the ID of a place in the queue, and keep how long it is
-- kept. Lengths are how many bytes of owner and host a place keeps, in 8 digits each.
-- Fair has one digit, all other numbers have 16.
--
-- A key has one of these values:
--
--   I expires token          idle: nobody holds the resource
--   F expires token hold     fresh: one exclusive hold as it was granted
--   M record [places]        any holds, and the places of waiters, in MessagePack
--
-- Token is the last granted one. Expires is when the key expires, in microseconds since
-- 1970; 2^53 means never. A hold is
--
--   hold ID, lock ID, mode (0 exclusive, 1 shared), TTL, takeover delay, owner, host,
--   comment
--
-- Its token is also the time of its grant. The hold ID has 24 hex digits. Each other text
-- has its length in 4 digits before it.
--
-- The record in MessagePack is { token, expires, hold, hold, … }. A hold is an array; the
-- constants below are the indexes of its elements. A shared hold also has the field
-- "limit", which its request set. All numbers are integers below 2^53, which Lua,
-- MessagePack and integer replies represent exactly. Times are microseconds since 1970. A
-- hold with the end 2^53 never ends.
--
-- The places are a separate value: { place, place, … } in the order in which the waiters
-- came. A place is an array, too. The limit of an exclusive place is -1.
local ID, LOCK, MODE, GRANTED, END, DELAY, RELEASED, CREATED, RENEWED, DETAILS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local PLACE, WAITER, KIND, LIMIT, OWNER, HOST, SINCE, ASKED, UNTIL, FAIR = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NEVER = 9007199254740992
local retention = sub(ARGV[1], 1, 16) + 0
local slack = math.max(math.floor(retention / 32), 60000000)

-- Decodes the hold in a request or in a fresh key, granted at the given time.
local function decode_hold(text, token, at)
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

-- Returns the live places in a list. A clock that was set back or ahead does not extend
-- the life of a place.
local function live_places(places)
  local live = {}
  for i, p in ipairs(places) do
    if #p ~= 10 or #p[PLACE] ~= 24 or #p[WAITER] == 0 or p[KIND] ~= 0 and p[KIND] ~= 1 or p[FAIR] ~= 0 and p[FAIR] ~= 1
      or not (p[LIMIT] >= p[KIND] - 1 and p[LIMIT] < NEVER and p[SINCE] >= 0 and p[ASKED] >= 0 and p[UNTIL] < NEVER) then
      error('DAMAGED place ' .. i .. ' is malformed', 0)
    end
    if p[ASKED] <= now and now < p[UNTIL] then
      live[#live + 1] = p
    end
  end
  return live
end

-- Reads a record: the token, when the key expires, the holds by lock ID, and the live
-- places. A damaged record makes every operation fail, and stays as it is.
local function read(key)
  local raw = redis.call('GET', key)
  if not raw then
    return { token = 0, expires = NEVER, holds = {}, places = {} }
  end
  local parts, places
  local kind = sub(raw, 1, 1)
  if kind == 'M' then
    parts, places = cmsgpack.unpack(sub(raw, 2))
  elseif kind == 'F' or kind == 'I' and #raw == 33 then
    local token = sub(raw, 18, 33) + 0
    parts = { token, sub(raw, 2, 17) + 0, kind == 'F' and decode_hold(sub(raw, 34), token, token) or nil }
  end
  if type(parts) ~= 'table' then
    error('DAMAGED it is not a record', 0)
  end
  local r = { token = parts[1], expires = parts[2], holds = {}, places = {}, exists = true }
  if not (r.token >= 0 and r.token < NEVER and r.expires > 0 and r.expires <= NEVER) then
    error('DAMAGED it has no token or does not say when it expires', 0)
  end
  for i = 3, #parts do
    local h = parts[i]
    if #h ~= 12 or #h[ID] ~= 24 or #h[LOCK] == 0 or r.holds[h[LOCK]]
      or h[MODE] ~= 0 and h[MODE] ~= 1 or h[RELEASED] ~= 0 and h[RELEASED] ~= 1
      or not (h[GRANTED] > 0 and h[GRANTED] < NEVER and h[END] > 0 and h[END] <= NEVER and h[DELAY] >= 0)
      or h[MODE] == 1 and not (h.limit >= 0 and h.limit < NEVER) then
      error('DAMAGED hold ' .. i - 2 .. ' is malformed', 0)
    end
    r.holds[h[LOCK]] = h
  end
  if places ~= nil and type(places) ~= 'table' then
    error('DAMAGED its queue is not an array', 0)
  end
  r.places = live_places(places or {})
  return r
end

-- Returns a record as an array, and the limits of its holds in another array, with -1 for
-- exclusive holds. A reply cannot have named fields.
local function parts_of(r)
  local parts, limits = { r.token, r.expires }, {}
  for _, h in pairs(r.holds) do
    parts[#parts + 1] = h
    limits[#limits + 1] = h.limit or -1
  end
  return parts, limits
end

-- Returns when a hold stops blocking.
local function clear(h)
  if h[RELEASED] > 0 then
    return h[END]
  end
  return h[END] + h[DELAY]
end

-- Writes a record. The key stays while a hold may block, and then at least for the
-- retention, which is longer than a place is kept. When it expires, the last token is
-- that far behind the clock, so the next token is larger. The slack lets several writes
-- leave the expiry as it is: a key stays longer than necessary by at most two slacks.
--
-- It reports whether the record is written. Places are optional: a server that cannot
-- write now refuses a request without giving it one.
local function write(key, r)
  local last = math.max(now, r.token)
  for _, h in pairs(r.holds) do
    last = math.max(last, clear(h))
  end
  local keeps = r.expires < NEVER and r.expires >= last + retention and r.expires <= last + retention + 2 * slack
  if not keeps then
    r.expires = math.min(last + retention + slack, NEVER)
  end
  for lock, h in pairs(not r.changed and r.over or {}) do
    r.holds[lock] = h -- a place alone drops no hold
  end
  local set = { 'SET', key }
  if #r.places > 0 then
    set[3] = 'M' .. cmsgpack.pack((parts_of(r)), r.places)
  elseif next(r.holds) then
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
    return true
  elseif not r.changed and not string.find(done.err, 'READONLY', 1, true) then
    return false
  end
  -- A server whose memory is full refuses SET, except after a command that frees memory.
  -- With DEL before SET, holds can still be renewed and released.
  if not string.find(done.err, 'OOM', 1, true) or redis.call('DEL', key) == 0 then
    error(done.err, 0)
  end
  r.expires = NEVER -- DEL forgets the expiry, too
  return write(key, r)
end

-- Sends a write that changes nothing, so that a replica refuses it. Otherwise a replica
-- would answer from its copy, which may be old.
local function refuse_replicas(key, r)
  local done = call('SET', key, '', r.exists and 'NX' or 'XX')
  if type(done) == 'table' and done.err and string.find(done.err, 'READONLY', 1, true) then
    error(done.err, 0)
  end
end
