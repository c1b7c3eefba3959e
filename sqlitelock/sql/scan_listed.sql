SELECT m.floor, r.touched, r.listed, r.token, r.holds, r.resource
FROM resources AS r INDEXED BY listed JOIN meta AS m
WHERE r.resource > ? AND r.listed IS NOT NULL AND r.holds IS NOT NULL
ORDER BY r.resource LIMIT ?
