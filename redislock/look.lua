-- The reply is the time and, if there is one, the record.
local function each(key)
  return { now, read(key) }
end
