DELETE FROM resources WHERE resource = ? AND touched = ?
