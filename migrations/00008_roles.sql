-- What roles.sql needs to tell the tasks of one service from those of others, where services have database roles of their own.
-- It is a script apart, run by whoever wants such roles: without it the table stays empty, and nothing here is ever called.

-- +goose Up
CREATE TABLE tasktable.applications (
    role    text NOT NULL,
    service text NOT NULL,
    PRIMARY KEY (role, service)
);
COMMENT ON TABLE tasktable.applications IS 'Which application role schedules and reads the tasks of which service. Written by the script of the roles; empty without it.';
COMMENT ON COLUMN tasktable.applications.role IS 'The database role.';
COMMENT ON COLUMN tasktable.applications.service IS 'What its tasks have in scheduled_by; empty: it has those of all services.';

-- The search_path is pinned, or the role asking could put a pg_has_role of its own in the way.
-- +goose StatementBegin
CREATE FUNCTION tasktable.services_of(role name) RETURNS text[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- By to_regrole, null for a role that was dropped: of its name pg_has_role would make an error.
    SELECT ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE pg_has_role(services_of.role, to_regrole(quote_ident(a.role)), 'USAGE'))
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.services_of(name) IS 'The services whose tasks a database role may schedule and read, by itself or as a member; an empty one is all.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.refuse_others_task() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Not current_user, which in a verb is the owner: who has logged in, or was SET ROLE.
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    services text[];
    other    record;
BEGIN
    -- As services_of, whose plan is not kept from one call to the next.
    services := ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE pg_has_role(caller, to_regrole(quote_ident(a.role)), 'USAGE'));
    IF '' = ANY (services) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT i.id, i.scheduled_by INTO other FROM inserted AS i WHERE (i.scheduled_by = ANY (services)) IS NOT TRUE LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'scheduled_by of task "%" must be a service of role "%", not %', other.id, caller, quote_nullable(other.scheduled_by)
                USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
        END IF;
    ELSIF (OLD.scheduled_by = ANY (services)) IS NOT TRUE THEN
        RAISE EXCEPTION 'task "%" is another service''s: role "%" must not change it', OLD.id, caller
            USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.refuse_others_task() IS 'Keeps an application role to the tasks of its services. The script of the roles makes its triggers, where roles are bound to services.';

-- +goose Down
DROP FUNCTION tasktable.refuse_others_task() CASCADE; -- with the triggers and policies that the script of the roles has made
DROP FUNCTION tasktable.services_of(name) CASCADE;
DROP TABLE tasktable.applications;
