-- acquire.lua decides the acquires that fast.lua does not grant, including all refusals.
-- A refusal is the record as a reply, from which operations.go makes the error.

-- The operations, by their letters. Each takes the record of its key and its request,
-- returns its reply, and notes in the record whether it has changed.
local operations = {}

-- Describes a record: the time, the record, and the limits of its holds.
local function describe(r)
  return { now, parts_of(r) }
end

-- Counts a hold that blocks. All shared holds of a record have the same limit.
local function count(r, h)
  r.count = r.count + 1
  r.exclusive = r.exclusive or h[MODE] == 0
  r.limit = r.limit or h.limit
end

-- Drops the holds that no longer block, and counts the others.
local function count_all(r)
  r.count, r.exclusive, r.limit, r.over = 0, nil, nil, r.over or {}
  for lock, h in pairs(r.holds) do
    if now < clear(h) then
      count(r, h)
    else
      r.holds[lock], r.over[lock] = nil, h
    end
  end
end

-- Describes a record with places: also the position of a request in the queue, the number
-- of waiters, and the first of their places.
local function describe_queue(r, position, places, most)
  local reply = describe(r)
  if #r.places > 0 then
    reply[4], reply[5], reply[6] = position, #r.places, { unpack(places, 1, math.min(#places, most)) }
  end
  return reply
end

-- Adds a hold if there is room for it beside the holds that block and the holds that the
-- waiters ahead will get. A lock ID that already has a hold is refused. The reply is the
-- token. A refusal is the description of the record, with the first places ahead.
--
-- A repeat finds its own hold. The reply is the description, with 1 added. The record is
-- written again, unchanged: the first reply may have been lost because no replica had it.
function operations.A(r, q)
  local limit, queued = sub(q, 34, 49) + 0, byte(q) == QUEUED
  local mine = decode_hold(sub(q, queued and 107 or 50), 0, now)
  local shared = mine[MODE] == 1
  mine.limit = shared and limit or nil
  local before = r.holds[mine[LOCK]]
  if before and before[ID] == mine[ID] and before[RELEASED] == 0 and now < before[END] then
    r.changed = true
    local reply = describe(r)
    reply[4] = 1
    return reply
  end
  if not r.count then
    count_all(r)
    before = r.holds[mine[LOCK]]
  end
  local place, ahead, own = { NOBODY }, {}, nil
  if queued then
    local owner, host = sub(mine[DETAILS], 1, sub(q, 66, 73) + 0), sub(mine[DETAILS + 1], 1, sub(q, 74, 81) + 0)
    place = { sub(q, 83, 106), mine[LOCK], mine[MODE], mine.limit or -1, owner, host, 0, 0, 0, sub(q, 82, 82) + 0 }
  end
  if #r.places > 0 then
    ahead, own = ahead_of(r, place)
  end
  local excluded = before
  for _, p in ipairs(ahead) do
    excluded = excluded or excludes(p, mine)
  end
  local token = math.max(now, r.token + 1)
  if token >= NEVER then
    return 'DAMAGED the next token would pass 2^53'
  end
  if excluded or r.count > 0 and (not shared or r.exclusive) or limit > 0 and r.count + #ahead >= limit
    or shared and r.limit and r.limit ~= limit then
    local waits = queued and not (before and now < before[END]) -- not by itself
    local placed = waits and take_place(r, place, own, sub(q, 50, 65) + 0)
    local reply = describe_queue(r, placed and #ahead or -1, ahead, 4)
    if waits and own and not placed then
      reply[5] = reply[5] - 1 -- it counts the others
    end
    return reply
  end
  mine[GRANTED], r.token = token, token
  count(r, mine)
  r.holds[mine[LOCK]], r.changed = mine, true
  leave(r, place[PLACE])
  return token
end
operations.Q = operations.A
