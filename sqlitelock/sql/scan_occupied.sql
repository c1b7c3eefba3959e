SELECT m.floor, r.touched, r.token, r.holds, r.resource
FROM resources AS r INDEXED BY occupied JOIN meta AS m
WHERE r.resource > ? AND r.holds IS NOT NULL ORDER BY r.resource LIMIT ?
