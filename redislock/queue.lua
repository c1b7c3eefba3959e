-- queue.lua keeps the places of waiters, by the rules of package model.
local NOBODY = string.rep('0', 24) -- the ID of no place, and of no hold

-- Returns the places that a request with this place must not overtake (the fair ones
-- before its own), and the index of its own. A place with another mode, limit or fairness
-- is not its own: the request starts at the end.
local function ahead_of(r, mine)
  local ahead = {}
  for i, p in ipairs(r.places) do
    if p[PLACE] ~= mine[PLACE] then
      if p[FAIR] == 1 then
        ahead[#ahead + 1] = p
      end
    elseif p[KIND] == mine[KIND] and p[LIMIT] == mine[LIMIT] and p[FAIR] == mine[FAIR] then
      return ahead, i
    end
  end
  return ahead
end

-- Takes a place out of the queue, and returns it.
local function leave(r, id)
  for i, p in ipairs(r.places) do
    if p[PLACE] == id then
      return table.remove(r.places, i)
    end
  end
end

-- Reports whether a waiter, once granted, leaves no room for a hold, however few other
-- holders there are.
local function excludes(p, mine)
  return p[WAITER] == mine[LOCK] or p[KIND] == 0 or mine[MODE] == 0 or p[LIMIT] ~= mine.limit
end

-- Gives a refused request its place at the end of the queue, or extends its place once
-- less than three quarters of its time are left. It reports whether there is room and
-- places can be written.
local function take_place(r, mine, own, keep)
  mine[SINCE], mine[ASKED], mine[UNTIL] = now, now, now + keep
  if own then
    local p = r.places[own]
    if p[UNTIL] < now + keep - math.floor(keep / 4) or p[UNTIL] > now + keep
      or p[WAITER] ~= mine[WAITER] or p[OWNER] ~= mine[OWNER] or p[HOST] ~= mine[HOST] then
      if r.unplaced then
        return false
      end
      mine[SINCE] = p[SINCE]
      r.places[own], r.noted = mine, true
    end
    return true
  end
  leave(r, mine[PLACE])
  if #r.places >= 64 or r.unplaced then
    return false
  end
  r.places[#r.places + 1], r.noted = mine, true
  return true
end
