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
    FOR one IN SELECT v.* FROM public.newer_views AS v ORDER BY v.place DESC LOOP
        EXECUTE format('DROP VIEW %s', one.name);
    END LOOP;
    FOR one IN SELECT v.* FROM public.newer_views AS v ORDER BY v.place LOOP
        EXECUTE format('CREATE VIEW %s AS %s', one.name, one.query);
    END LOOP;
    DROP TABLE public.newer_views;
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
