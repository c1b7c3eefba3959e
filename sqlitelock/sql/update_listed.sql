UPDATE resources SET touched = ?, token = ?, freed = max(freed, ?), holds = ?, listed = 1
WHERE resource = ? AND touched = ? AND listed IS ?
