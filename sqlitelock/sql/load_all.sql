SELECT m.floor, r.touched, r.listed, r.token, r.holds, j.key
FROM json_each(?) AS j JOIN meta AS m LEFT JOIN resources AS r ON r.resource = j.value
