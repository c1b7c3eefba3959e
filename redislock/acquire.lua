-- The operations, by their letters. Each gets the record of its key and its arguments,
-- and returns its reply. It notes in the record whether that has changed.
local operations = {}

-- What is told of a record: the time, the record, and the limits of its holds.
local function told(r)
  local parts, limits = parts_of(r)
  return { now, parts, limits }
end

-- Counts a hold among what is in the way of others. There are limits if two holds have
-- different ones.
local function count(r, h)
  r.count = r.count + 1
  r.exclusive = r.exclusive or h[MODE] == 0
  r.limits = r.limits or h.limit and r.limit and r.limit ~= h.limit
  r.limit = r.limit or h.limit
end

-- Drops what no longer blocks, and counts the rest.
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

-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never does.
-- The reply is the token, or what is told of the record that is in the way. If it has the
-- very hold that is asked for, it is written as it is, and 1 is added: the first reply may
-- have been lost because no replica had it.
function operations.A(r, q)
  local limit = sub(q, 34, 49) + 0
  local mine = fresh(sub(q, 51), 0, now)
  local shared = mine[MODE] == 1
  if shared and sub(q, 50, 50) == '0' then -- the limits of others count, and this one for them
    mine.limit = limit
  end
  local before = r.holds[mine[LOCK]]
  if before and before[ID] == mine[ID] and before[RELEASED] == 0 and now < before[END] then
    r.changed = true
    local reply = told(r)
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
    return told(r)
  end
  mine[GRANTED], r.token = token, token
  count(r, mine)
  r.holds[mine[LOCK]], r.changed = mine, true
  return token
end
