SELECT m.floor, r.touched, r.token, r.holds
FROM meta AS m LEFT JOIN resources AS r ON r.resource = ?
