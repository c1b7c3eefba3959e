SELECT touched, listed, token, holds, resource
FROM resources INDEXED BY listed
WHERE resource > ? AND listed IS NOT NULL AND holds IS NOT NULL
ORDER BY resource LIMIT ?
