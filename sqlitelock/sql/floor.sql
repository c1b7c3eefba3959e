SELECT floor FROM meta
