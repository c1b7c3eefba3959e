SELECT touched, listed, token, holds, resource
FROM resources
WHERE resource > ? ORDER BY resource LIMIT ?
