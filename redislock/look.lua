-- Changes nothing.
local r = read()
if r.damage then
  return { 'damaged', text(now), r.damage }
end
return { 'kept', text(now), r.fields }
