SELECT r.touched, r.listed, r.token, r.holds, j.key
FROM json_each(?) AS j JOIN resources AS r ON r.resource = j.value
