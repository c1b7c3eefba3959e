-- Removes a hold, or lets it end after a while, and tells who waits. The reply is
-- whether it was there.
-- For all: after, retention, 16 digits each, the command that publishes. For each:
-- token, hold ID and lock ID.
local after, retention = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 17, 32) + 0
local function each(key, hold)
  local k = open(key)
  local at = find(k, hold)
  if not at then
    return 0
  end
  local h = k.record[at]
  if after > 0 and now < h[END] then
    h[END], h[RELEASED] = math.min(h[END], now + after), 1
  else
    k.record[at] = false
  end
  k.changed, k.publish = true, publish
  return 1
end
