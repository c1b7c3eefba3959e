-- holds.lua renews, releases and sweeps holds, and reads records.

-- Returns the hold that a request names, or nil, and the rest of the request. A lock ID
-- has one hold at most.
local function find(r, q)
  local token, id, rest = sub(q, 18, 33) + 0, sub(q, 34, 57), 62 + sub(q, 58, 61)
  local h = r.holds[sub(q, 62, rest - 1)]
  if h and ((h[ID] ~= id and id ~= NOBODY) or (token ~= 0 and h[GRANTED] ~= token)) then
    h = nil
  end
  return h, sub(q, rest)
end

-- Renews a live hold. Its end never moves back. The reply is the time left in µs, -1 if
-- the hold has no end, or 0 if there is no such hold. If there are waiters, it is an
-- array of the time and their number.
function operations.N(r, q)
  local h = find(r, q)
  if not h or h[RELEASED] > 0 or now >= h[END] then
    return 0
  end
  h[END] = math.max(h[END], math.min(now + sub(q, 2, 17), NEVER))
  h[RENEWED], r.changed = now, true
  local left = h[END] < NEVER and h[END] - now or -1
  return #r.places > 0 and { left, #r.places } or left
end

-- Takes a place out of the queue. It wakes the waiters if the place was fair, so that
-- others may have waited behind it, and no exclusive hold blocks them anyway.
local function give_up(r, id)
  local p = leave(r, id)
  if not p then
    return
  end
  r.changed = true
  for _, h in pairs(p[FAIR] == 1 and r.holds or {}) do
    if h[MODE] == 0 and now < clear(h) then
      return
    end
  end
  r.freed = r.freed or p[FAIR] == 1
end

-- Removes a hold, or ends it after a while, and wakes the waiters. The reply is 1 if the
-- hold was there, else 0. If the request names a place, that leaves the queue, too.
-- Without a hold ID such a request changes nothing else.
function operations.R(r, q)
  local h, place = find(r, q)
  if place ~= '' then
    give_up(r, place)
    if sub(q, 34, 57) == NOBODY then
      return 0
    end
  end
  local after = sub(q, 2, 17) + 0
  if not h then
    return 0
  end
  if after > 0 and now < h[END] then
    h[END], h[RELEASED] = math.min(h[END], now + after), 1
  else
    r.holds[h[LOCK]] = nil
  end
  r.count, r.changed, r.freed = nil, true, true -- acquires in the same run count again
  return 1
end

-- Drops the holds that no longer block, and wakes the waiters. The reply is the number of
-- dropped holds.
function operations.S(r)
  local dropped = 0
  for lock, h in pairs(r.holds) do
    if now >= clear(h) then
      r.holds[lock], dropped = nil, dropped + 1
    end
  end
  if dropped > 0 then
    r.count, r.changed, r.freed = nil, true, true
  end
  return dropped
end

-- The reply is the description of the record and of its queue.
function operations.L(r)
  return describe_queue(r, -1, r.places, #r.places)
end
