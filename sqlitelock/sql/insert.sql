-- Not if a record of the resource may have come and gone since this one was
-- loaded: its token could lie above ours.
INSERT INTO resources (resource, touched, token, freed, holds, listed)
SELECT ?, ?, ?, ?, ?, 1 WHERE ? > (SELECT floor FROM meta)
ON CONFLICT DO NOTHING
