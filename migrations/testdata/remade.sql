-- What a migration must not do, but nodes survive: functions are dropped and made anew, with one more argument. Statements that are about to
-- call one fail then (cache lookup failed for function), which an application sees.
CREATE SCHEMA IF NOT EXISTS newer;
-- step
-- How each function was, for remade_undone.sql.
CREATE TABLE IF NOT EXISTS newer.functions AS
SELECT p.proname, pg_get_functiondef(p.oid) AS definition, p.oid::regprocedure::text AS signature, pg_get_function_arguments(p.oid) AS arguments
FROM pg_proc AS p
WHERE p.pronamespace = 'tasktable'::regnamespace AND p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype AND p.proname !~ '^river_'
    AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid AND d.deptype = 'n');
-- step
-- One more argument with a default for each function that no trigger, view, index or policy is bound to: made anew, since a second one of
-- the name would make calls ambiguous.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT f.* FROM newer.functions AS f ORDER BY f.signature LOOP
        CONTINUE WHEN to_regprocedure(one.signature) IS NULL;
        EXECUTE format('DROP FUNCTION %s', one.signature);
        EXECUTE overlay(one.definition PLACING '(' || concat_ws(', ', nullif(one.arguments, ''), 'newer_note text DEFAULT NULL') || ')'
            FROM strpos(one.definition, '(' || one.arguments || ')') FOR length(one.arguments) + 2);
        COMMIT;
    END LOOP;
END $$;
