-- Returns the time and, if there is one, the record.
if record then
  return { now, record }
end
return { now }
