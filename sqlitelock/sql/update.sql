UPDATE resources SET touched = ?, token = ?, holds = ?, freed = max(freed, ?)
WHERE resource = ? AND touched = ?
