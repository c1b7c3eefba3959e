UPDATE resources INDEXED BY listed SET listed = NULL
WHERE resource > ? AND resource <= ? AND listed IS NOT NULL AND holds IS NULL AND touched < ?
