SELECT coalesce(max(touched), 0) FROM resources WHERE listed IS NOT NULL
