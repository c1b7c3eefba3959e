-- fast.lua decides most operations by a few comparisons: it acquires a free resource,
-- releases the only hold of a resource if the hold has not changed since its grant, and
-- reads an idle resource. It refuses nothing; acquire.lua does.
--
-- The files after this one decide all other operations. They would decide these
-- operations in the same way, but with three times the work for the server.
--
-- The script performs any number of operations. KEYS has the key of each. ARGV[1] has the
-- retention and the name of the command that publishes. The other arguments are the
-- requests, in the order of their keys. record.lua describes requests and keys.
local ACQUIRE, QUEUED, RELEASE, LOOK = 65, 81, 82, 76 -- A, Q, R and L, the first byte of a request
local IDLE, FRESH = 73, 70      -- I and F, the first byte of a key
local NONE, LAST = '0000000000000000', '9007199254740992' -- 0 and 2^53
local call, sub, byte, format = redis.pcall, string.sub, string.byte, string.format
local clock = redis.call('TIME')
local digits = clock[1] .. sub('00000' .. clock[2], -6) -- two numbers of 16 digits can be compared as text
local now = digits + 0
local replies, undecided, unfinished = {}, {}, false
local primary -- a table once the server has not refused a write
for i = 1, #KEYS do
  local key, q, done, reply = KEYS[i], ARGV[i + 1], nil, nil
  -- Operations on one key keep their order: after an undecided one, no other is decided
  -- here.
  local operation, first = unfinished and undecided[key] and 0 or byte(q), sub(q, 2, 17)
  -- Acquire: grants a resource without holds and waiters.
  local hold = operation == ACQUIRE and 50 or operation == QUEUED and 107
  if hold and first ~= NONE then
    local raw = call('GET', key)
    if not raw then
      local expiry = sub(q, 18, 33) + 0
      done = call('SET', key, 'F' .. format('%016.0f', now + expiry * 1000) .. digits .. sub(q, hold), 'PX', expiry)
    elseif #raw == 33 and byte(raw) == IDLE and sub(raw, 18) < digits then
      local expires = sub(raw, 2, 17)
      if (tonumber(expires) or 0) >= now + first then -- late enough to be kept: setting one takes as long as storing a value
        done = call('SET', key, 'F' .. expires .. digits .. sub(q, hold), 'KEEPTTL')
      end
    end
    reply = done and done.err or now -- a text is an error
  -- Release: removes the only hold of a resource if it has not changed since its grant.
  elseif operation == RELEASE and first == NONE then
    local raw, mine = call('GET', key), sub(q, 18)
    if raw and #raw > 33 and byte(raw) == FRESH and sub(raw, 18, 17 + #mine) == mine and tonumber(sub(raw, 2, 17)) then
      done = call('SET', key, 'I' .. sub(raw, 2, 33), 'KEEPTTL')
      if done.err then
        done = nil -- the memory is full: holds.lua can release nevertheless
      else
        call(sub(ARGV[1], 17), key, '') -- its error does not count: a user without the right to publish may release
      end
    end
    reply = 1
  -- Read: replies only the time if nobody holds the resource or waits. A list reads every
  -- key, and most are idle.
  elseif operation == LOOK then
    local raw = call('GET', key)
    local sound = raw and #raw == 33 and string.find(raw, '^I%d+$')
    if sound and sub(raw, 2, 17) > NONE and sub(raw, 2, 17) <= LAST and sub(raw, 18) < LAST then
      if not primary then
        -- A replica refuses this write, which changes nothing, see refuse_replicas. One
        -- such write is enough for a run.
        local refused = call('SET', key, '', 'NX')
        primary = not (refused and refused.err) and {} or nil
      end
      done, reply = primary, now
    end
  end
  if done then
    replies[i] = reply
  else
    undecided[key] = true
  end
  unfinished = unfinished or not done or done.err
end
if not unfinished then
  if #KEYS == 1 then
    return replies[1] -- an array takes a server some microseconds
  end
  return replies
end
