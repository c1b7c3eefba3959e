-- Drops the holds that no longer block, and tells who waits. Returns how many.
-- ARGV: retention, the command that publishes
if not record then
  return 0
end
local kept = { record[TOKEN], record[UNTIL] }
for i = FIRST, #record do
  if now < clear(record[i]) then
    kept[#kept + 1] = record[i]
  end
end
local dropped = #record - #kept
if dropped > 0 then
  write(kept, ARGV[1] + 0)
  redis.pcall(ARGV[2], KEYS[1], '')
end
return dropped
