-- Drops the holds that no longer block, and tells who waits. The reply is how many.
-- For all: retention, 16 digits, the command that publishes.
local retention, publish = sub(ARGV[1], 1, 16) + 0, sub(ARGV[1], 17)
local function each(key)
  local record = read(key)
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
    write(key, kept, retention)
    call(publish, key, '')
  end
  return dropped
end
