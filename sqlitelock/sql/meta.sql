SELECT boot, base, floor FROM meta
