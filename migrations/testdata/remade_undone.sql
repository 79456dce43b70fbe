-- Takes remade.sql back, step by step.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT f.definition, p.oid::regprocedure::text AS signature FROM newer.functions AS f
        JOIN pg_proc AS p ON p.proname = f.proname AND p.pronamespace = 'tasktable'::regnamespace AND 'newer_note' = ANY (p.proargnames)
        ORDER BY f.signature
    LOOP
        EXECUTE format('DROP FUNCTION %s', one.signature);
        EXECUTE one.definition;
        COMMIT;
    END LOOP;
END $$;
-- step
DROP SCHEMA newer CASCADE;
