-- Gives five roles their rights in a schema that contains Tasktable alone:
--
--   owner        owns the schema and everything in it, and migrates it
--   engine       for nodes, also embedded ones, and for operators: does everything to tasks, but cannot rewrite history
--   application  schedules and calls the verbs, by functions alone, and reads tasks and history; writes to no table
--   auditor      reads everything
--   tenant       does what the application does, to the tasks of one tenant; the HTTP API takes this role for the
--                transaction of a call, and names the tenant in the setting tasktable.tenant
--
-- Run it after each migration, because a function that was created again has lost its rights. You may run it any number
-- of times. The first run needs a superuser, or a role with CREATEROLE that owns the objects. Later the owner suffices.
-- The role that owned the schema before becomes a member of the owner, so that it can go on migrating.
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
    names name[] := ARRAY['tasktable_owner', 'tasktable_engine', 'tasktable_application', 'tasktable_auditor',
        'tasktable_tenant'];
    one   name;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable roles', 0));
    IF to_regclass('tasktable.notice_rules') IS NULL OR to_regclass('tasktable.river_job') IS NULL THEN
        RAISE EXCEPTION 'schema tasktable is not migrated, or older than this script: migrate it first';
    END IF;
    FOREACH one IN ARRAY names LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles AS r WHERE r.rolname = one) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', one);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'role "%" does not exist, and "%" may not create roles: run this script for the first '
                    'time as a superuser or as a role with CREATEROLE', one, current_user
                    USING ERRCODE = 'insufficient_privilege';
            END;
        ELSIF (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = one) THEN
            RAISE EXCEPTION 'role "%" is a superuser: no right that it is given or refused here would mean anything',
                one;
        END IF;
    END LOOP;
    FOREACH one IN ARRAY names[2:5] LOOP
        IF pg_has_role(one, names[1], 'MEMBER') OR one <> names[2] AND pg_has_role(one, names[2], 'MEMBER') THEN
            RAISE EXCEPTION 'role "%" is a member of a role that may do more: it would have all of its rights', one;
        END IF;
    END LOOP;
    -- A member of the role of tenants chooses the tenant itself. That would undo the services of an application.
    FOREACH one IN ARRAY names[3:4] LOOP
        IF pg_has_role(names[5], one, 'MEMBER') THEN
            RAISE EXCEPTION 'role "%" is a member of a role that may do more: it would have all of its rights',
                names[5];
        ELSIF pg_has_role(one, names[5], 'MEMBER') THEN
            RAISE EXCEPTION 'role "%" is a member of role "%": it would have the tasks of every tenant', one, names[5];
        END IF;
    END LOOP;
    -- A role with CREATEROLE needs this to change the owner of anything. A superuser does not.
    IF NOT pg_has_role(current_user, names[1], 'USAGE') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', names[1]);
    END IF;
    -- Owner and engine may take the role of tenants by SET ROLE. They need nothing that it has. Before Postgres 16
    -- membership without its rights is a property of the member, so there they have them, too. They have more anyway.
    FOREACH one IN ARRAY names[1:2] LOOP
        IF current_setting('server_version_num')::int < 160000 THEN
            IF NOT pg_has_role(one, names[5], 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %I', names[5], one);
            END IF;
        ELSIF NOT pg_has_role(one, names[5], 'SET') THEN
            EXECUTE format('GRANT %I TO %I WITH INHERIT FALSE, SET TRUE', names[5], one);
        END IF;
    END LOOP;
END $$;

-- Objects that another role has created go to the owner. The sequence of a column goes with its table.
DO $$
DECLARE
    owner  regrole := '"tasktable_owner"';
    former regrole := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'tasktable');
    one    text;
BEGIN
    -- The role that has migrated so far keeps that right. Otherwise its next migration would fail.
    IF former NOT IN (owner, '"tasktable_engine"', '"tasktable_application"', '"tasktable_auditor"',
            '"tasktable_tenant"')
        AND NOT pg_has_role(former, owner, 'MEMBER')
    THEN
        EXECUTE format('GRANT %s TO %s', owner, former);
    END IF;
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
REVOKE ALL ON SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor", "tasktable_tenant";
REVOKE ALL ON ALL TABLES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor", "tasktable_tenant";
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor", "tasktable_tenant";
REVOKE ALL ON ALL ROUTINES IN SCHEMA tasktable
    FROM PUBLIC, "tasktable_engine", "tasktable_application", "tasktable_auditor", "tasktable_tenant";
GRANT USAGE ON SCHEMA tasktable
    TO "tasktable_engine", "tasktable_application", "tasktable_auditor", "tasktable_tenant";

-- The auditor may call only the functions that the views call, and the one by which errors are grouped. They change
-- nothing.
GRANT SELECT ON ALL TABLES IN SCHEMA tasktable TO "tasktable_auditor";
GRANT EXECUTE ON FUNCTION tasktable.due_of, tasktable.lock_class, tasktable.reason_text, tasktable.reason_of,
    tasktable.recurring_health, tasktable.message_pattern, tasktable.late_at, tasktable.limit_states,
    tasktable.reached_limits, tasktable.limit_places, tasktable.limit_waits, tasktable.waits_for
    TO "tasktable_auditor";

-- The engine writes the history and, by retention, deletes it, but cannot rewrite it.
GRANT SELECT ON ALL TABLES IN SCHEMA tasktable TO "tasktable_engine";
GRANT INSERT, UPDATE, DELETE ON tasktable.scheduled_tasks, tasktable.nodes, tasktable.pauses, tasktable.limits,
    tasktable.limit_buckets, tasktable.task_defaults, tasktable.calendars TO "tasktable_engine";
GRANT INSERT, DELETE ON tasktable.scheduled_task_executions, tasktable.scheduled_task_changes TO "tasktable_engine";
-- Keys are revoked, but not deleted. An answer that was given is not changed. Of a session only its end moves.
GRANT INSERT, UPDATE ON tasktable.api_keys TO "tasktable_engine";
GRANT INSERT, DELETE ON tasktable.api_answers, tasktable.api_sessions TO "tasktable_engine";
GRANT UPDATE (expires_at) ON tasktable.api_sessions TO "tasktable_engine";
GRANT INSERT, UPDATE, DELETE ON tasktable.notice_rules, tasktable.notice_recipients, tasktable.notice_rule_recipients
    TO "tasktable_engine";
GRANT INSERT, DELETE ON tasktable.notice_causes, tasktable.notice_episodes TO "tasktable_engine";
GRANT USAGE, UPDATE ON SEQUENCE tasktable.task_numbers TO "tasktable_engine"; -- a failover moves it, and River's
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tasktable TO "tasktable_engine";
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT c.oid::regclass AS name,
            CASE c.relkind WHEN 'r' THEN 'INSERT, UPDATE, DELETE ON' ELSE 'USAGE, UPDATE ON SEQUENCE' END AS rights
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
-- the right to update a column. It has this right for the id, which a trigger does not let it change. All this is so
-- for a tenant, too. Both may read the pauses, because a task may wait for the end of a pause that somebody else began.
GRANT SELECT ON tasktable.scheduled_tasks, tasktable.scheduled_task_executions, tasktable.scheduled_task_changes,
    tasktable.pauses, tasktable.task_defaults, tasktable.calendars, tasktable.goose_db_version,
    tasktable.river_migration
    TO "tasktable_application", "tasktable_tenant";
GRANT UPDATE (id) ON tasktable.scheduled_tasks TO "tasktable_application", "tasktable_tenant";
GRANT EXECUTE ON FUNCTION tasktable.same_time, tasktable.schedule_outcome, tasktable.is_restricted,
    tasktable.defaults_of, tasktable.recurring_health, tasktable.message_pattern, tasktable.day_in, tasktable.days_of,
    tasktable.calendars_of, tasktable.options_fault, tasktable.is_day, tasktable.knows_time_zone
    TO "tasktable_application", "tasktable_tenant";
-- An application of all services does not get this right, so that no trigger asks for its services (is_restricted).
GRANT EXECUTE ON FUNCTION tasktable.services_of TO "tasktable_tenant";
-- This function answers only for tasks that the caller may read. Of other tasks it tells only how many are in line
-- before one.
GRANT EXECUTE ON FUNCTION tasktable.reason_of TO "tasktable_application", "tasktable_tenant";

-- The verbs run as the owner, so that the application needs no right to write. They have a fixed search_path, so that
-- it cannot put functions or operators of its own before the real ones. erase is not among them, because it removes
-- history. Neither are those that pause, resume and limit, because they stop other services. The engine may call these.
-- The verbs of calendars refuse an application of some services. A tenant changes its own calendars.
DO $$
DECLARE
    verbs text[] := '{schedule, schedule_many, schedule_recurring, sync, reschedule, cancel, pause, resume, run_now,
        retry, delete, archive, fork_occurrence, set_calendar, add_days, remove_days, remove_calendar}';
    one   record;
BEGIN
    FOR one IN SELECT p.oid::regprocedure AS name, p.proname AS verb,
            p.prosecdef AND p.proconfig = '{"search_path=pg_catalog, pg_temp"}' AS done
        FROM pg_proc AS p WHERE p.pronamespace = 'tasktable'::regnamespace AND p.proname = ANY (verbs)
    LOOP
        IF one.done IS NOT TRUE THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = pg_catalog, pg_temp', one.name);
        END IF;
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.name, 'tasktable_application');
        IF one.verb <> 'fork_occurrence' THEN -- a tenant runs a recurring task by run_now
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.name, 'tasktable_tenant');
        END IF;
    END LOOP;
END $$;

-- The services whose tasks the application may schedule and read.
DELETE FROM tasktable.applications AS a
    WHERE a.role = 'tasktable_application' AND (a.service <> ALL (ARRAY['']) OR a.by_tenant)
        OR a.role = 'tasktable_tenant' AND NOT a.by_tenant;
INSERT INTO tasktable.applications (role, service)
    SELECT 'tasktable_application', unnest(ARRAY['']) ON CONFLICT DO NOTHING;
INSERT INTO tasktable.applications (role, service, by_tenant)
    VALUES ('tasktable_tenant', '', true) ON CONFLICT DO NOTHING;

-- Policies and triggers are created only if they are missing or others, because to create one locks its table. An
-- application of all services, the engine and the auditor see all rows. Their policies have no condition, so that their
-- plans are those of a table without row level security.
DO $$
DECLARE
    own CONSTANT text := CASE WHEN EXISTS (SELECT FROM tasktable.applications AS a
        WHERE a.role = 'tasktable_application' AND a.service = '') THEN 'all' ELSE 'service' END;
    one record;
BEGIN
    IF own = 'service' THEN
        GRANT EXECUTE ON FUNCTION tasktable.services_of TO "tasktable_application";
    END IF;
    FOR one IN
        SELECT wanted.relation, wanted.role, wanted.command, p.oid IS NOT NULL AS made, CASE wanted.kind
                WHEN 'all' THEN 'true'
                -- Each SELECT runs once a query.
                WHEN 'service' THEN 'scheduled_by = ANY ((SELECT tasktable.services_of(current_user))::text[])'
                -- If the setting is missing or empty, this is true of no task.
                WHEN 'tenant' THEN 'tenant_id = (SELECT current_setting(''tasktable.tenant'', true))'
                WHEN 'own or general' THEN
                    'tenant_id IN ('''', (SELECT current_setting(''tasktable.tenant'', true)))'
                -- Without the history of an earlier task of the same id, because that may have been another service's
                -- or another tenant's.
                ELSE format('EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t
                    WHERE t.id = %1$s.task_id AND t.created_at <= %1$s.%2$I)', wanted.relation, wanted.kind) END
                AS condition
        FROM (
            SELECT 'tasktable.scheduled_tasks'::regclass AS relation, r.* FROM (VALUES
                ('tasktable_engine'::name, 'ALL', 'all'), ('tasktable_auditor', 'SELECT', 'all'),
                ('tasktable_application', 'ALL', own), ('tasktable_tenant', 'ALL', 'tenant')
            ) AS r (role, command, kind)
            UNION ALL
            SELECT 'tasktable.calendars'::regclass, r.* FROM (VALUES
                ('tasktable_engine'::name, 'ALL', 'all'), ('tasktable_auditor', 'SELECT', 'all'),
                ('tasktable_application', 'SELECT', 'all'), ('tasktable_tenant', 'SELECT', 'own or general')
            ) AS r (role, command, kind)
            UNION ALL
            SELECT h.relation, r.role, r.command, CASE WHEN r.kind = 'all' THEN 'all' ELSE h.time END
            FROM (VALUES
                ('tasktable.scheduled_task_executions'::regclass, 'finished_at'),
                ('tasktable.scheduled_task_changes', 'changed_at')
            ) AS h (relation, time)
            CROSS JOIN (VALUES
                ('tasktable_engine'::name, 'ALL', 'all'), ('tasktable_auditor', 'SELECT', 'all'),
                ('tasktable_application', 'SELECT', own), ('tasktable_tenant', 'SELECT', 'tenant')
            ) AS r (role, command, kind)
        ) AS wanted
        LEFT JOIN pg_policy AS p ON p.polrelid = wanted.relation AND p.polname = wanted.role
        -- The kind of the policy that there is, by words that Postgres shows it in.
        WHERE wanted.kind IS DISTINCT FROM CASE
            WHEN pg_get_expr(p.polqual, p.polrelid) = 'true' THEN 'all'
            WHEN pg_get_expr(p.polqual, p.polrelid) LIKE '%services_of(%' THEN 'service'
            WHEN pg_get_expr(p.polqual, p.polrelid) LIKE '%ARRAY[%current_setting(%' THEN 'own or general'
            WHEN pg_get_expr(p.polqual, p.polrelid) LIKE '%current_setting(%' THEN 'tenant'
            WHEN pg_get_expr(p.polqual, p.polrelid) LIKE '%.finished_at)%' THEN 'finished_at'
            WHEN pg_get_expr(p.polqual, p.polrelid) LIKE '%.changed_at)%' THEN 'changed_at' END
    LOOP
        IF one.made THEN
            EXECUTE format('DROP POLICY %I ON %s', one.role, one.relation);
        END IF;
        EXECUTE format('CREATE POLICY %I ON %s FOR %s TO %I USING (%s)',
            one.role, one.relation, one.command, one.role, one.condition);
    END LOOP;
    FOR one IN
        SELECT c.oid::regclass AS relation FROM pg_class AS c
        WHERE c.relnamespace = 'tasktable'::regnamespace AND NOT c.relrowsecurity
            AND c.relname IN ('scheduled_tasks', 'scheduled_task_executions', 'scheduled_task_changes', 'calendars')
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one.relation);
    END LOOP;
END $$;

-- The condition of these triggers is false for the engine, the owner and an application of all services.
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_trigger AS t
        WHERE t.tgrelid = 'tasktable.scheduled_tasks'::regclass AND t.tgname = 'task_9_own_insert')
    THEN
        RETURN;
    END IF;
    CREATE TRIGGER task_9_own_insert AFTER INSERT ON tasktable.scheduled_tasks
        REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT WHEN (tasktable.is_restricted())
        EXECUTE FUNCTION tasktable.refuse_others_task();
    CREATE TRIGGER task_9_own_update AFTER UPDATE ON tasktable.scheduled_tasks
        FOR EACH ROW WHEN ((OLD.revision, OLD.status, OLD.paused_until)
            IS DISTINCT FROM (NEW.revision, NEW.status, NEW.paused_until) AND tasktable.is_restricted())
        EXECUTE FUNCTION tasktable.refuse_others_task();
    CREATE TRIGGER task_9_own_delete AFTER DELETE ON tasktable.scheduled_tasks
        FOR EACH ROW WHEN (tasktable.is_restricted()) EXECUTE FUNCTION tasktable.refuse_others_task();
    COMMENT ON TRIGGER task_9_own_insert ON tasktable.scheduled_tasks IS
        'An application schedules for its own services, and a tenant for itself.';
    COMMENT ON TRIGGER task_9_own_update ON tasktable.scheduled_tasks IS
        'An application edits the tasks of its own services, and a tenant its own.';
    COMMENT ON TRIGGER task_9_own_delete ON tasktable.scheduled_tasks IS
        'An application deletes the tasks of its own services, and a tenant its own.';
END $$;

COMMIT;
