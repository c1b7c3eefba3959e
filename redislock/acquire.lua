-- acquire.lua decides the acquires that fast.lua does not grant. All refusals come from it:
-- it replies the record, of which operations.go makes the error.

-- The operations, by their letters. Each takes the record of its key and its request, and
-- returns its reply. It notes in the record whether that has changed.
local operations = {}

-- Describes a record: the time, the record, and the limits of its holds.
local function describe(r)
  local parts, limits = parts_of(r)
  return { now, parts, limits }
end

-- Counts a hold that blocks. r.limits says that two of them have different limits.
local function count(r, h)
  r.count = r.count + 1
  r.exclusive = r.exclusive or h[MODE] == 0
  r.limits = r.limits or h.limit and r.limit and r.limit ~= h.limit
  r.limit = r.limit or h.limit
end

-- Drops the holds that no longer block, and counts the others.
local function count_all(r)
  r.count, r.exclusive, r.limits, r.limit = 0, nil, nil, nil
  for lock, h in pairs(r.holds) do
    if now < clear(h) then
      count(r, h)
    else
      r.holds[lock] = nil
    end
  end
end

-- Adds a hold if the holds that block leave room for it. A hold of the same lock ID never
-- does. The reply is the token. A refusal is the description of the record.
--
-- A repeat finds its own hold. The reply is the description, with 1 added, and the record
-- is written unchanged: the first reply may have been lost because no replica had it.
function operations.A(r, q)
  local limit = sub(q, 34, 49) + 0
  local mine = decode_hold(sub(q, 51), 0, now)
  local shared = mine[MODE] == 1
  if shared and sub(q, 50, 50) == '0' then -- the hold is subject to limits, and keeps its own
    mine.limit = limit
  end
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
  local token = math.max(now, r.token + 1)
  if before or r.count > 0 and (not shared or r.exclusive) or limit > 0 and r.count >= limit or token >= NEVER
    or mine.limit and r.limit and (r.limits or r.limit ~= limit) then
    return describe(r)
  end
  mine[GRANTED], r.token = token, token
  count(r, mine)
  r.holds[mine[LOCK]], r.changed = mine, true
  return token
end
