-- Gives four roles their rights in a schema that contains Tasktable alone:
--
--   owner        owns the schema and everything in it, and migrates it
--   engine       for nodes, also embedded ones, and for operators: does everything to tasks, but cannot rewrite history
--   application  schedules and calls the verbs, by functions alone, and reads tasks and history; writes to no table
--   auditor      reads everything
--
-- Run it after each migration, because a function that was created again has lost its rights. You may run it any number
-- of times. The first run needs a superuser, or a role with CREATEROLE that owns the objects. Later the owner suffices.
--
-- Roles that exist keep their passwords and attributes. A new role cannot log in until you allow it by ALTER ROLE ...
-- LOGIN PASSWORD, or until you grant it to a role that can log in.

BEGIN;
SET LOCAL lock_timeout = '10s'; -- so that nobody waits long behind this script; run it again if it fails
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL client_min_messages = warning;

DO $$
DECLARE
    names name[] := ARRAY['tasktable_owner', 'tasktable_engine', 'tasktable_application', 'tasktable_auditor'];
    one   name;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable roles', 0));
    IF to_regclass('tasktable.task_reasons') IS NULL OR to_regclass('tasktable.river_job') IS NULL THEN
        RAISE EXCEPTION 'schema tasktable is not migrated, or older than this script: migrate it first';
    END IF;
    FOREACH one IN ARRAY names LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles AS r WHERE r.rolname = one) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one);
        ELSIF (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = one) THEN
            RAISE EXCEPTION 'role "%" is a superuser: no right that it is given or refused here would mean anything',
                one;
        END IF;
    END LOOP;
    FOREACH one IN ARRAY names[2:4] LOOP
        IF pg_has_role(one, names[1], 'MEMBER') OR one <> names[2] AND pg_has_role(one, names[2], 'MEMBER') THEN
            RAISE EXCEPTION 'role "%" is a member of a role that may do more: it would have all of its rights', one;
        END IF;
    END LOOP;
    -- A role with CREATEROLE needs this to change the owner of anything. A superuser does not.
    IF NOT pg_has_role(current_user, names[1], 'USAGE') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', names[1]);
    END IF;
END $$;

-- Objects that another role has created go to the owner. The sequence of a column goes with its table.
DO $$
DECLARE
    owner regrole := '"tasktable_owner"';
    one   text;
BEGIN
    FOR one IN
        SELECT format('SCHEMA %I', n.nspname)
        FROM pg_namespace AS n WHERE n.nspname = 'tasktable' AND n.nspowner <> owner
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass) FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relowner <> owner
            AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
        UNION ALL
        SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc AS p
        WHERE p.pronamespace = 'tasktable'::regnamespace AND p.proowner <> owner
        UNION ALL
        SELECT format('TYPE %s', t.oid::regtype) FROM pg_type AS t
        WHERE t.typnamespace = 'tasktable'::regnamespace AND t.typowner <> owner
            AND (t.typtype IN ('d', 'e')
                OR EXISTS (SELECT 1 FROM pg_class AS c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
    LOOP
        EXECUTE format('ALTER %s OWNER TO %s', one, owner);
    END LOOP;
END $$;

-- All rights are granted again, so that rights that a release no longer needs are gone. The transaction hides this.
REVOKE ALL ON SCHEMA tasktable FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor";
REVOKE ALL ON ALL TABLES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor";
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor";
REVOKE ALL ON ALL ROUTINES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor";
GRANT USAGE ON SCHEMA tasktable TO "tasktable_engine", "tasktable_application", "tasktable_auditor";

-- The auditor may call only the functions that the views call. They change nothing.
GRANT SELECT ON ALL TABLES IN SCHEMA tasktable TO "tasktable_auditor";
GRANT EXECUTE ON FUNCTION tasktable.due_of, tasktable.lock_class, tasktable.reason_text, tasktable.reason_of
    TO "tasktable_auditor";

-- The engine writes the history and, by retention, deletes it, but cannot rewrite it.
GRANT SELECT ON ALL TABLES IN SCHEMA tasktable TO "tasktable_engine";
GRANT INSERT, UPDATE, DELETE ON tasktable.scheduled_tasks, tasktable.nodes, tasktable.pauses TO "tasktable_engine";
GRANT INSERT, DELETE ON tasktable.scheduled_task_executions, tasktable.scheduled_task_changes TO "tasktable_engine";
GRANT USAGE ON SEQUENCE tasktable.task_numbers TO "tasktable_engine";
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tasktable TO "tasktable_engine";
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT c.oid::regclass AS name,
            CASE c.relkind WHEN 'r' THEN 'INSERT, UPDATE, DELETE ON' ELSE 'USAGE ON SEQUENCE' END AS rights
        FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace
            AND c.relname LIKE 'river\_%' AND c.relname <> 'river_migration' AND c.relkind IN ('r', 'S')
    LOOP
        EXECUTE format('GRANT %s %s TO %I', one.rights, one.name, 'tasktable_engine');
    END LOOP;
END $$;

-- For objects of the next migration, until this script runs again.
ALTER DEFAULT PRIVILEGES FOR ROLE "tasktable_owner" IN SCHEMA tasktable
    GRANT SELECT ON TABLES TO "tasktable_auditor";
ALTER DEFAULT PRIVILEGES FOR ROLE "tasktable_owner" IN SCHEMA tasktable
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO "tasktable_engine";
ALTER DEFAULT PRIVILEGES FOR ROLE "tasktable_owner" IN SCHEMA tasktable
    GRANT USAGE ON SEQUENCES TO "tasktable_engine";

-- The application may not read the views, because a view reads as its owner. To lock a row, as Reconcile does, it needs
-- the right to update a column. It has this right for the id, which a trigger does not let it change.
GRANT SELECT ON tasktable.scheduled_tasks, tasktable.scheduled_task_executions, tasktable.scheduled_task_changes,
    tasktable.pauses, tasktable.goose_db_version, tasktable.river_migration TO "tasktable_application";
GRANT UPDATE (id) ON tasktable.scheduled_tasks TO "tasktable_application";
GRANT EXECUTE ON FUNCTION tasktable.same_time, tasktable.schedule_outcome, tasktable.services_of
    TO "tasktable_application";
-- This function answers only for tasks that the application may read. Of other services' tasks it tells only how many
-- are in line before one.
GRANT EXECUTE ON FUNCTION tasktable.reason_of TO "tasktable_application";

-- The verbs run as the owner, so that the application needs no right to write. They have a fixed search_path, so that
-- it cannot put functions or operators of its own before the real ones. erase is not among them, because it removes
-- history. Neither are pause_scope and resume_scope, because they stop other services. The engine may call these three.
DO $$
DECLARE
    verbs text[] := '{schedule, schedule_many, schedule_recurring, sync, reschedule, cancel, pause, resume, run_now,
        retry, delete, archive, fork_occurrence}';
    one   record;
BEGIN
    FOR one IN SELECT p.oid::regprocedure AS name,
            p.prosecdef AND p.proconfig = '{"search_path=pg_catalog, pg_temp"}' AS done
        FROM pg_proc AS p WHERE p.pronamespace = 'tasktable'::regnamespace AND p.proname = ANY (verbs)
    LOOP
        IF one.done IS NOT TRUE THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = pg_catalog, pg_temp', one.name);
        END IF;
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.name, 'tasktable_application');
    END LOOP;
END $$;

-- The services whose tasks the application may schedule and read.
DELETE FROM tasktable.applications AS a WHERE a.role = 'tasktable_application' AND a.service <> ALL (ARRAY['']);
INSERT INTO tasktable.applications (role, service)
    SELECT 'tasktable_application', unnest(ARRAY['']) ON CONFLICT DO NOTHING;

-- Policies and triggers are created only if they are missing, because to create one locks its table. Policies have no
-- effect until an application is bound to services, because row level security is off until then.
DO $$
DECLARE
    own  text := $own$scheduled_by = ANY ((SELECT tasktable.services_of(current_user))::text[])
        OR '' = ANY ((SELECT tasktable.services_of(current_user))::text[])$own$; -- each SELECT runs once a query
    -- Without the history of an earlier task of the same id, because that may have been another service's.
    past text := 'EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t
        WHERE t.id = %1$s.task_id AND t.created_at <= %1$s.%2$s)';
    one  record;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('tasktable.scheduled_tasks'::regclass, 'tasktable_engine'::name, 'ALL', 'true'),
            ('tasktable.scheduled_tasks', 'tasktable_auditor', 'SELECT', 'true'),
            ('tasktable.scheduled_tasks', 'tasktable_application', 'ALL', own),
            ('tasktable.scheduled_task_executions', 'tasktable_engine', 'ALL', 'true'),
            ('tasktable.scheduled_task_executions', 'tasktable_auditor', 'SELECT', 'true'),
            ('tasktable.scheduled_task_executions', 'tasktable_application', 'SELECT',
                format(past, 'scheduled_task_executions', 'finished_at')),
            ('tasktable.scheduled_task_changes', 'tasktable_engine', 'ALL', 'true'),
            ('tasktable.scheduled_task_changes', 'tasktable_auditor', 'SELECT', 'true'),
            ('tasktable.scheduled_task_changes', 'tasktable_application', 'SELECT',
                format(past, 'scheduled_task_changes', 'changed_at'))
        ) AS wanted (relation, role, command, condition)
        WHERE NOT EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = wanted.relation AND p.polname = wanted.role)
    LOOP
        EXECUTE format('CREATE POLICY %I ON %s FOR %s TO %I USING (%s)',
            one.role, one.relation, one.command, one.role, one.condition);
    END LOOP;
END $$;

DO $$
DECLARE
    bound boolean := EXISTS (SELECT 1 FROM tasktable.applications AS a WHERE a.service <> '');
    made  boolean := EXISTS (SELECT 1 FROM pg_trigger AS t
        WHERE t.tgrelid = 'tasktable.scheduled_tasks'::regclass AND t.tgname = 'task_9_own_insert');
    -- The triggers ask neither the engine nor the owner, because both may update the table anyway.
    bare  text := $bare$NOT has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user),
        'tasktable.scheduled_tasks'::regclass, 'UPDATE')$bare$;
    one   text;
BEGIN
    IF bound = made THEN
        RETURN;
    END IF;
    FOREACH one IN ARRAY '{scheduled_tasks, scheduled_task_executions, scheduled_task_changes}'::text[] LOOP
        EXECUTE format('ALTER TABLE tasktable.%I %s ROW LEVEL SECURITY', one,
            CASE WHEN bound THEN 'ENABLE' ELSE 'DISABLE' END);
    END LOOP;
    IF made THEN
        DROP TRIGGER task_9_own_insert ON tasktable.scheduled_tasks;
        DROP TRIGGER task_9_own_update ON tasktable.scheduled_tasks;
        DROP TRIGGER task_9_own_delete ON tasktable.scheduled_tasks;
        RETURN;
    END IF;
    EXECUTE format('CREATE TRIGGER task_9_own_insert AFTER INSERT ON tasktable.scheduled_tasks
        REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT WHEN (%s)
        EXECUTE FUNCTION tasktable.refuse_others_task()', bare);
    EXECUTE format('CREATE TRIGGER task_9_own_update AFTER UPDATE ON tasktable.scheduled_tasks
        FOR EACH ROW WHEN ((OLD.revision, OLD.status, OLD.paused_until)
            IS DISTINCT FROM (NEW.revision, NEW.status, NEW.paused_until) AND %s)
        EXECUTE FUNCTION tasktable.refuse_others_task()', bare);
    EXECUTE format('CREATE TRIGGER task_9_own_delete AFTER DELETE ON tasktable.scheduled_tasks
        FOR EACH ROW WHEN (%s) EXECUTE FUNCTION tasktable.refuse_others_task()', bare);
    COMMENT ON TRIGGER task_9_own_insert ON tasktable.scheduled_tasks IS
        'An application schedules for its own services.';
    COMMENT ON TRIGGER task_9_own_update ON tasktable.scheduled_tasks IS
        'An application edits the tasks of its own services.';
    COMMENT ON TRIGGER task_9_own_delete ON tasktable.scheduled_tasks IS
        'An application deletes the tasks of its own services.';
END $$;

COMMIT;
