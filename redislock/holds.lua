-- holds.lua renews, releases and sweeps holds, and reads them.

-- Returns the hold that has the name, or nil. A lock ID has one hold at most.
local function find(r, name)
  local token, id = sub(name, 1, 16) + 0, sub(name, 17, 40)
  local h = r.holds[sub(name, 45)]
  if h and (h[ID] == id or id == string.rep('0', 24)) and (token == 0 or h[GRANTED] == token) then
    return h
  end
end

-- Renews a live hold. Its end never moves back, unless the request is exact. The reply is
-- the time left in µs, -1 if the hold has no end, or 0 if there is no such hold.
function operations.N(r, q)
  local h = find(r, sub(q, 19))
  if not h or h[RELEASED] > 0 or now >= h[END] then
    return 0
  end
  local ends = math.min(now + sub(q, 2, 17), NEVER)
  if sub(q, 18, 18) == '1' or ends > h[END] then
    h[END] = ends
  end
  h[RENEWED], r.changed = now, true
  return h[END] < NEVER and h[END] - now or -1
end

-- Removes a hold, or lets it end after a while, and wakes the waiters. The reply is 1 if
-- the hold was there, else 0.
function operations.R(r, q)
  local h, after = find(r, sub(q, 19)), sub(q, 2, 17) + 0
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
-- these holds.
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

-- The reply is the description of the record.
operations.L = describe
