-- HTTP: the keys of those who call the API, the answers of calls that a caller may repeat, and the sessions of those
-- who are signed in to the dashboard.

-- +goose Up
-- +goose StatementBegin
-- A key has 256 random bits, so nobody can guess it, not even with the hash at hand. A slow hash, as for passwords,
-- would only make each call slower.
CREATE TABLE tasktable.api_keys (
    number       bigint                   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C"         NOT NULL,
    prefix       text                     NOT NULL,
    secret_hash  bytea                    NOT NULL,
    scopes       text[]                   NOT NULL,
    service      tasktable.task_author    NOT NULL,
    tenant_id    tasktable.task_tenant_id,
    types        text[],
    queues       text[],
    rate         integer,
    created_at   timestamptz              NOT NULL DEFAULT clock_timestamp(),
    created_by   text                     NOT NULL DEFAULT session_user,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text,
    last_used_at timestamptz,
    CONSTRAINT "name must be 1 to 63 letters, digits or _.-" CHECK (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    CONSTRAINT "secret_hash must be 32 bytes, a SHA-256" CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT "scopes must be one or more of read, schedule, operate, admin"
        CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'schedule', 'operate', 'admin']),
    CONSTRAINT "types must be null or 1 to 100 types" CHECK (cardinality(types) BETWEEN 1 AND 100),
    CONSTRAINT "queues must be null or 1 to 100 queues" CHECK (cardinality(queues) BETWEEN 1 AND 100),
    CONSTRAINT "rate must be over 0" CHECK (rate > 0),
    CONSTRAINT "expires_at must be after created_at" CHECK (expires_at > created_at),
    CONSTRAINT "revoked_at and revoked_by are set together" CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
COMMENT ON TABLE tasktable.api_keys IS 'The keys of the HTTP API, one row a key, also after it was revoked. The key '
    'itself is nowhere. Only its hash is here.';
CREATE UNIQUE INDEX api_keys_secret_hash ON tasktable.api_keys (secret_hash);
COMMENT ON INDEX tasktable.api_keys_secret_hash IS 'A key, by the hash of what the caller sends.';
CREATE UNIQUE INDEX api_keys_name ON tasktable.api_keys (name) WHERE revoked_at IS NULL;
COMMENT ON INDEX tasktable.api_keys_name IS 'No two keys that are not revoked have one name. An expired key keeps its '
    'name until it is revoked.';

CREATE TABLE tasktable.api_answers (
    caller          text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    request_hash    bytea            NOT NULL,
    answer          jsonb            NOT NULL,
    created_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (caller, idempotency_key),
    CONSTRAINT "idempotency_key must be 1 to 255 characters" CHECK (char_length(idempotency_key) BETWEEN 1 AND 255)
);
COMMENT ON TABLE tasktable.api_answers IS 'The answers of the HTTP API to calls with an Idempotency-Key, kept for 24 '
    'hours. The transaction of the call writes the answer. A repeated call gets the same answer, and changes nothing.';
CREATE INDEX api_answers_created_at ON tasktable.api_answers (created_at);
COMMENT ON INDEX tasktable.api_answers_created_at IS 'The answers that are older than 24 hours.';

CREATE TABLE tasktable.api_sessions (
    token_hash bytea       PRIMARY KEY,
    key_number bigint      NOT NULL REFERENCES tasktable.api_keys,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    idle_limit interval    NOT NULL,
    CONSTRAINT "token_hash must be 32 bytes, a SHA-256" CHECK (octet_length(token_hash) = 32),
    CONSTRAINT "expires_at must be after created_at" CHECK (expires_at > created_at)
);
COMMENT ON TABLE tasktable.api_sessions IS 'The browsers that are signed in to the dashboard. The token in the '
    'browser''s cookie is nowhere. Only its hash is here. A row is removed when its person signs out, or after it has '
    'expired.';
CREATE INDEX api_sessions_expires_at ON tasktable.api_sessions (expires_at);
COMMENT ON INDEX tasktable.api_sessions_expires_at IS 'The sessions that have expired.';

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT 'api_keys' AS relation, c.* FROM (VALUES
            ('number', 'The log names the key by it.'),
            ('name', 'Chosen by the operator. A revoked key gives its name free.'),
            ('prefix', 'The first characters of the key, so that people recognize it.'),
            ('secret_hash', 'SHA-256 of the whole key.'),
            ('scopes', 'What the key may do: one or more of read, schedule, operate and admin.'),
            ('service', 'The service in whose name tasks are scheduled, as in scheduled_by.'),
            ('tenant_id', 'The key has the tasks of this tenant alone. Null: of all tenants.'),
            ('types', 'The key may change tasks of these types alone. EXEC includes EXEC:backup. Null: of all types, '
                'but with a tenant of none of EXEC, RUN_SQL and SEND_EMAIL.'),
            ('queues', 'The key may change tasks of these queues alone. Null: of all queues.'),
            ('rate', 'Calls a second that the key may make. Null: as many as the API gives to each key.'),
            ('created_at', 'When the key was created.'),
            ('created_by', 'Who created it.'),
            ('expires_at', 'From then on the key is refused. Null: it does not expire.'),
            ('revoked_at', 'When somebody revoked the key. From then on it is refused.'),
            ('revoked_by', 'Who revoked it.'),
            ('last_used_at', 'When it was last used, written at most once a minute. Null: not yet.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'api_answers', c.* FROM (VALUES
            ('caller', 'Who called: the name of the key.'),
            ('idempotency_key', 'The header Idempotency-Key of the call.'),
            ('request_hash', 'Hash of the call, so that another call with the same header is refused.'),
            ('answer', 'The status, the headers and the body of the answer.'),
            ('created_at', 'When the answer was given.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'api_sessions', c.* FROM (VALUES
            ('token_hash', 'SHA-256 of the token in the cookie.'),
            ('key_number', 'The key by which the person signed in. If it is revoked or expires, so does the session.'),
            ('created_at', 'When the person signed in.'),
            ('expires_at', 'From then on the person must sign in again. Use of the session moves it on, written at '
                'most once in 5 minutes.'),
            ('ends_at', 'The latest expires_at, however much the session is used.'),
            ('idle_limit', 'How long the session lasts without use.')
        ) AS c (name, text)
    LOOP
        EXECUTE format('COMMENT ON COLUMN tasktable.%I.%I IS %L', one.relation, one.name, one.text);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE tasktable.api_sessions, tasktable.api_answers, tasktable.api_keys;
