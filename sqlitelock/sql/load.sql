SELECT m.floor, r.touched, r.listed, r.token, r.holds
FROM meta AS m LEFT JOIN resources AS r ON r.resource = ?
