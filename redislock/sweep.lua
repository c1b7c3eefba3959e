-- Drops the holds that no longer block, and tells who waits. The reply is how many.
-- For all: retention, 16 digits, the command that publishes.
local retention, publish = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 17)
local function each(key)
  local k = open(key)
  local dropped, record = 0, k.record
  for i = FIRST, record and #record or 0 do
    if record[i] and now >= clear(record[i]) then
      record[i], dropped = false, dropped + 1
    end
  end
  if dropped > 0 then
    k.changed, k.publish = true, publish
  end
  return dropped
end
