-- Takes newer.sql back, step by step.
DELETE FROM tasktable.goose_db_version WHERE version_id = (SELECT max(version_id) FROM tasktable.goose_db_version);
-- step
DROP FUNCTION IF EXISTS tasktable.newer_verb(text);
-- step
DROP INDEX IF EXISTS tasktable.scheduled_tasks_newer;
-- step
DROP TABLE IF EXISTS tasktable.newer_things;
-- step
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass::text AS name, array_to_string(array_agg(quote_ident(a.attname) ORDER BY a.attnum) FILTER (WHERE a.attname <> 'newer_note'), ', ') AS columns,
            rtrim(pg_get_viewdef(c.oid), ';') AS query
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'v' GROUP BY c.oid, c.relname
    LOOP
        EXECUTE format('DROP VIEW %s', one.name);
        EXECUTE format('CREATE VIEW %s AS SELECT %s FROM (%s) AS was', one.name, one.columns, one.query);
        COMMIT;
    END LOOP;
END $$;
-- step
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass::text AS name FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'r' AND c.relname !~ '^(river|goose)_' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS newer_note, DROP COLUMN IF EXISTS newer_count', one.name);
        COMMIT;
    END LOOP;
END $$;
