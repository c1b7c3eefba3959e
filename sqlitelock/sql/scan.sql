SELECT m.floor, r.touched, r.listed, r.token, r.holds, r.resource
FROM resources AS r JOIN meta AS m
WHERE r.resource > ? ORDER BY r.resource LIMIT ?
