-- What Init looks for.
COMMENT ON TABLE {schema}.locks IS 'Locks of Holdfast, layout {layout}';
