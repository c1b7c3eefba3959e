SELECT r.resource, r.freed
FROM json_each(?) AS j JOIN resources AS r ON r.resource = j.value
