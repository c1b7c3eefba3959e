UPDATE meta SET boot = ?, base = ?
