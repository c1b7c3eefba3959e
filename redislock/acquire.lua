-- Adds a hold if what blocks leaves room for it. A hold of the same lock ID never
-- does. The reply is the token, or what is told of the record that is in the way. If
-- it has the very hold that is asked for, it is written as it is, and 1 is added:
-- the first reply may have been lost because no replica had it.
-- For all: retention; for how long the key must stay, in µs, and, in ms, for how long
-- if it is new, or 0 if one of both is for ever or the record must be MessagePack;
-- limit or 0; 16 digits each; own, if the limits of others are not looked at. For
-- each: a hold.
local retention, limit, own = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 49, 64) + 0, sub(ARGV[1], 65) == 'own'

-- Adds a hold to what is known, also by the replies that have it already. There are
-- limits if two holds have different ones.
local function add(k, h)
  k.kept[#k.kept + 1] = h
  k.told[#k.told + 1] = h.limit or -1
  k.locks[h[LOCK]] = h
  k.exclusive = k.exclusive or h[MODE] == 0
  k.limits = k.limits or h.limit and k.limit and k.limit ~= h.limit
  k.limit = k.limit or h.limit
end

-- Leaves out what no longer blocks, and counts the rest.
local function count(k)
  local before = k.record or { 0, NEVER }
  k.kept, k.told, k.locks = { before[TOKEN], before[UNTIL] }, {}, {}
  for i = FIRST, #before do
    if now < clear(before[i]) then
      add(k, before[i])
    end
  end
end

local function each(key, hold)
  local k = open(key)
  if not k.kept then
    count(k)
  end
  local record = k.kept
  local mine = fresh(hold, 0, now)
  local shared = mine[MODE] == 1
  if shared and not own then
    mine.limit = limit
  end
  local before = k.locks[mine[LOCK]]
  if before and before[ID] == mine[ID] and before[RELEASED] == 0 and now < before[END] then
    k.changed = true
    return { now, record, k.told, 1 }
  end
  local token = math.max(now, record[TOKEN] + 1)
  local held = #record - UNTIL
  if before or held > 0 and (not shared or k.exclusive) or limit > 0 and held >= limit or token >= NEVER
    or mine.limit and k.limit and (k.limits or k.limit ~= limit) then
    return { now, record, k.told }
  end
  mine[GRANTED], record[TOKEN] = token, token
  add(k, mine)
  k.record, k.changed = record, true
  return token
end
