DELETE FROM resources WHERE resource = ? AND touched = ? AND listed IS ?
