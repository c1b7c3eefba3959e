-- Drops the holds that no longer block, or deletes a record without holds that has
-- been idle for so long, and whose token lies as far behind the clock.
-- ARGV: idle in us, retention in ms, the command that publishes
local r = read()
if r.damage then
  return { 'damaged', text(now), r.damage }
end
local kept, gone = {}, {}
for _, h in ipairs(r.holds) do
  if now < clear(h) then
    kept[#kept + 1] = h
  else
    gone[#gone + 1] = 'hold:' .. h.id
  end
end
if #gone > 0 then
  redis.call('HSET', key, 'touched', text(now))
  drop(gone)
  r.holds = kept
  keep(r, tonumber(ARGV[2]))
  redis.call(ARGV[3], key, '')
  return { 'swept', text(now), #gone }
end
local before = now - tonumber(ARGV[1])
if #kept == 0 and #r.fields > 0 and before >= 0 and r.touched <= before and r.token <= before then
  redis.call('DEL', key)
  return { 'deleted', text(now) }
end
return { 'kept', text(now), {} }
