-- What a later release's migrations may do: nothing but add, and in each transaction lock one table at most. Tests apply it over the newest
-- schema, step by step, which must then still serve this library and the releases before it. Each step may be run again. It goes by the
-- catalogs, so that it follows the schema. River's tables are River's.
-- A column that may be empty, and one with a default, at the end of each table.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass::text AS name FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'r' AND c.relname !~ '^(river|goose)_' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS newer_note text, ADD COLUMN IF NOT EXISTS newer_count integer NOT NULL DEFAULT 0', one.name);
        COMMIT;
    END LOOP;
END $$;
-- step
-- How each view was, for newer_undone.sql, in the order in which they can be made.
CREATE TABLE IF NOT EXISTS public.newer_views AS
SELECT c.oid::bigint AS place, c.oid::regclass::text AS name, rtrim(pg_get_viewdef(c.oid), ';') AS query
FROM pg_class AS c WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'v';
-- step
-- A column at the end of each view.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass::text AS name, rtrim(pg_get_viewdef(c.oid), ';') AS query FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'v'
            AND NOT EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'newer_note') ORDER BY c.relname
    LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %s AS SELECT was.*, NULL::text AS newer_note FROM (%s) AS was', one.name, one.query);
        COMMIT;
    END LOOP;
END $$;
-- step
-- Functions, those of triggers too, are replaced under the signature they have: who is about to call one finds it still.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT pg_get_functiondef(p.oid) AS definition FROM pg_proc AS p
        WHERE p.pronamespace = 'tasktable'::regnamespace AND p.prokind = 'f' AND p.proname !~ '^river_'
    LOOP
        EXECUTE one.definition;
        COMMIT;
    END LOOP;
END $$;
-- step
CREATE TABLE IF NOT EXISTS tasktable.newer_things (id text PRIMARY KEY, task_id text NOT NULL);
-- step
CREATE INDEX IF NOT EXISTS scheduled_tasks_newer ON tasktable.scheduled_tasks (newer_note) WHERE newer_note IS NOT NULL;
-- step
CREATE OR REPLACE FUNCTION tasktable.newer_verb(id text) RETURNS text LANGUAGE sql AS 'SELECT id';
-- step
INSERT INTO tasktable.goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM tasktable.goose_db_version;
