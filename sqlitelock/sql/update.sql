-- A row that is listed, or has no holds to list.
UPDATE resources SET touched = ?, token = ?, freed = max(freed, ?), holds = ?
WHERE resource = ? AND touched = ? AND listed IS ?
