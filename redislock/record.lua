-- What every script begins with. Times are microseconds since 1970 and tokens whole
-- numbers below 2^53: Lua's numbers hold both exactly, and %.0f writes them so.
--
-- The key is a hash. Field "token" is the last token granted, "touched" when the
-- record last changed, and "hold:ID" a hold:
--   MODE END DELAY RELEASED TOKEN CREATED RENEWED LENGTH LOCKIDdetails
-- where END is inf for none, RENEWED 0 for never, and LENGTH the bytes of LOCKID.
local key = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local limit = 9007199254740991

local function text(number)
  if number == math.huge then
    return 'inf'
  end
  return string.format('%.0f', number)
end

local function number(digits)
  if digits == 'inf' then
    return math.huge
  end
  return tonumber(digits)
end

-- The hold that a field has, or nil if it cannot be understood.
local function decode(id, value)
  local mode, ends, delay, released, token, created, renewed, length, at =
    string.match(value, '^([xs]) (%d+) (%d+) ([01]) (%d+) (%d+) (%d+) (%d+) ()')
  if not mode then
    mode, delay, released, token, created, renewed, length, at =
      string.match(value, '^([xs]) inf (%d+) ([01]) (%d+) (%d+) (%d+) (%d+) ()')
    ends = 'inf'
  end
  if not mode then
    return nil
  end
  local h = {
    id = id, mode = mode, ends = number(ends), delay = number(delay), released = released == '1',
    token = number(token), created = created, renewed = renewed,
    lock = string.sub(value, at, at + number(length) - 1),
    details = string.sub(value, at + number(length)),
  }
  if #id ~= 24 or string.find(id, '[^0-9a-f]') or #h.lock ~= number(length) or h.lock == ''
    or h.token < 1 or h.token > limit or h.ends < math.huge and h.ends > limit then
    return nil
  end
  return h
end

local function encode(h)
  return table.concat({
    h.mode, text(h.ends), text(h.delay), h.released and '1' or '0', text(h.token), h.created, h.renewed,
    text(#h.lock), h.lock .. h.details,
  }, ' ')
end

-- The record as it is. damage says what cannot be understood.
local function read()
  local fields = redis.call('HGETALL', key)
  local r = { token = 0, touched = 0, holds = {}, fields = fields }
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if string.sub(name, 1, 5) == 'hold:' then
      local h = decode(string.sub(name, 6), value)
      if h then
        r.holds[#r.holds + 1] = h
      else
        r.damage = name
      end
    elseif name == 'token' or name == 'touched' then
      if not string.find(value, '^%d+$') or tonumber(value) > limit then
        r.damage = name
      else
        r[name] = tonumber(value)
      end
    end
  end
  return r
end

-- When the hold stops to block.
local function clear(h)
  if h.released then
    return h.ends
  end
  return h.ends + h.delay
end

local function live(h)
  return now < h.ends
end

-- The key lives as long as a hold may block, and for the retention after that: by
-- then the token, too, lies that far behind the clock, so that whatever comes
-- after has a larger one.
local function keep(r, retention)
  local last = math.max(now, r.token)
  for _, h in ipairs(r.holds) do
    last = math.max(last, clear(h))
  end
  if last == math.huge then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIREAT', key, text(math.ceil(last / 1000) + retention))
  end
end

local function drop(names)
  for i = 1, #names, 1000 do -- of which there is room on the stack
    redis.call('HDEL', key, unpack(names, i, math.min(i + 999, #names)))
  end
end

-- The hold's place among the holds, or nil. Token 0 is one that is not known, and
-- no hold ID is any.
local function find(r, id, lock, token)
  for i, h in ipairs(r.holds) do
    if h.lock == lock and (id == '' or h.id == id) and (token == 0 or h.token == token) then
      return i
    end
  end
end
