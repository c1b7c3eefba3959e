SELECT coalesce(max(touched), 0) FROM resources WHERE holds IS NOT NULL
