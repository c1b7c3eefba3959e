-- Removes a hold, or lets it end after a while, and tells who waits. Returns whether
-- it was there.
-- ARGV: hold ID and lock ID, token, after, retention, the command that publishes,
-- and what the key begins with if the hold is alone and as it was granted, or -
local at = find()
if not at then
  return 0
end
local h, after = record[at], ARGV[3] + 0
if after > 0 and now < h[END] then
  h[END], h[RELEASED] = math.min(h[END], now + after), 1
else
  table.remove(record, at)
end
write(record, ARGV[4] + 0)
redis.pcall(ARGV[5], KEYS[1], '')
return 1
