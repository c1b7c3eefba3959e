-- acquire.lua decides the acquires that fast.lua does not grant. All refusals come from it:
-- it replies the record, of which operations.go makes the error.

-- The operations, by their letters. Each takes the record of its key and its request, and
-- returns its reply. It notes in the record whether that has changed.
local operations = {}

-- Counts a hold that blocks. All that are shared have the same limit.
local function count(r, h)
  r.count = r.count + 1
  r.exclusive = r.exclusive or h[MODE] == 0
  r.limit = r.limit or h[LIMIT]
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

-- Describes a record: the time, the record, the position of a request in the queue, how
-- many wait, and some of them.
local function describe(r, position, places, most)
  return { now, parts_of(r), position, #r.places, { unpack(places, 1, math.min(#places, most)) } }
end

-- Adds a hold if the holds that block leave room for it, and for those that the waiters
-- ahead will have. A hold of the same lock ID never does. The reply is the token. A refusal
-- is the description of the record, with the first places ahead.
--
-- A repeat finds its own hold. The reply is the token and the time left, and the record is
-- written unchanged: the first reply may have been lost because no replica had it.
function operations.A(r, q)
  local limit = sub(q, 34, 49) + 0
  local mine = decode_hold(sub(q, 107), 0, now)
  local shared = mine[MODE] == 1
  mine[LIMIT] = shared and limit or -1
  local before = r.holds[mine[LOCK]]
  if before and before[ID] == mine[ID] and before[RELEASED] == 0 and now < before[END] then
    r.changed = true
    return { before[GRANTED], left(before) }
  end
  if not r.count then
    count_all(r)
    before = r.holds[mine[LOCK]]
  end
  local owner, host = sub(mine[DETAILS], 1, sub(q, 66, 73) + 0), sub(mine[DETAILS + 1], 1, sub(q, 74, 81) + 0)
  local place = { sub(q, 83, 106), mine[LOCK], mine[MODE], mine[LIMIT], owner, host, 0, 0, 0, sub(q, 82, 82) + 0 }
  local ahead, own = ahead_of(r, place)
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
    local waits = place[ID] ~= NOBODY and not (before and now < before[END]) -- not by itself
    local placed = waits and take_place(r, place, own, sub(q, 50, 65) + 0)
    local reply = describe(r, placed and #ahead or -1, ahead, 4)
    if waits and own and not placed then
      reply[4] = reply[4] - 1 -- it counts the others
    end
    return reply
  end
  mine[GRANTED], r.token = token, token
  count(r, mine)
  r.holds[mine[LOCK]], r.changed = mine, true
  leave(r, place[ID])
  return token
end
