-- Removes a hold, or lets it end after a while, and tells who waits. Returns whether
-- it was there.
-- ARGV: hold ID, lock ID, token, after, retention in ms, the command that publishes
local at = find()
if not at then
  return 0
end
local h, after = record[at], ARGV[4] + 0
if after > 0 and now < h[END] then
  h[END], h[RELEASED] = math.min(h[END], now + after), 1
else
  table.remove(record, at)
end
write(record, ARGV[5])
redis.pcall(ARGV[6], KEYS[1], '') -- who may not publish may release all the same
return 1
