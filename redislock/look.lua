-- The reply is what is told of a record, here and by an acquire: the time, the record,
-- and the limits of its holds, -1 for one that is not known.
local retention
local function each(key)
  local record, limits = open(key).record, {}
  for i = FIRST, record and #record or 0 do
    limits[i - UNTIL] = record[i].limit or -1
  end
  return { now, record, limits }
end
