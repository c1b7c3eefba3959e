-- Drops the holds that no longer block, and tells who waits; or deletes a record
-- without holds that has been idle for so long, and whose last token lies as far
-- behind the clock. Returns how many holds it dropped, -1 if it deleted the record.
-- ARGV: idle, retention in ms, the command that publishes
if not record then
  return 0
end
local kept = { record[TOKEN], record[TOUCHED] }
for i = FIRST, #record do
  if now < clear(record[i]) then
    kept[#kept + 1] = record[i]
  end
end
local dropped, before = #record - #kept, now - ARGV[1]
if dropped > 0 then
  write(kept, ARGV[2])
  redis.pcall(ARGV[3], KEYS[1], '')
  return dropped
end
if #kept == TOUCHED and before >= 0 and record[TOUCHED] <= before and record[TOKEN] <= before then
  redis.call('DEL', KEYS[1])
  return -1
end
return 0
