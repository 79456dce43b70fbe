-- The community's own tables. They do not refer to tasks. The application changes its tables and the tasks in one
-- transaction.

CREATE SCHEMA IF NOT EXISTS community;

CREATE TABLE IF NOT EXISTS community.members (
    id    text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    email text NOT NULL
);

CREATE TABLE IF NOT EXISTS community.communities (
    id    text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    title text NOT NULL,
    host  text NOT NULL REFERENCES community.members -- greets the new members
);

CREATE TABLE IF NOT EXISTS community.memberships (
    id           text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id text        NOT NULL REFERENCES community.communities,
    member_id    text        NOT NULL REFERENCES community.members,
    joined_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (community_id, member_id)
);

-- starts_local is the local time that the calendar shows. A recurring event keeps it when the clocks change.
-- starts_at is the instant of starts_local. Both are stored, because on a day on which the clocks skip starts_local,
-- starts_at shows another local time.
CREATE TABLE IF NOT EXISTS community.events (
    id              text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id    text        NOT NULL REFERENCES community.communities,
    title           text        NOT NULL,
    starts_at       timestamptz NOT NULL,
    starts_local    timestamp   NOT NULL,
    time_zone       text        NOT NULL,
    repeat_days     integer     NOT NULL CHECK (repeat_days BETWEEN 0 AND 366),
    reminder_before interval    NOT NULL CHECK (reminder_before > interval '0'),
    publish_at      timestamptz NOT NULL,
    published_at    timestamptz
);

CREATE TABLE IF NOT EXISTS community.scheduled_posts (
    id           text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id text        NOT NULL REFERENCES community.communities,
    author       text        NOT NULL REFERENCES community.members,
    body         text        NOT NULL,
    publish_at   timestamptz NOT NULL,
    published_at timestamptz
);

-- A notification stays when its event is deleted. The primary key guarantees one reminder for each occurrence and
-- member. effect_key is the IdempotencyKey of the task that wrote the row, so it leads to the history of that task.
CREATE TABLE IF NOT EXISTS community.notifications (
    event_id      text        NOT NULL,
    occurrence_at timestamptz NOT NULL,
    member_id     text        NOT NULL REFERENCES community.members,
    text          text        NOT NULL,
    effect_key    text        NOT NULL,
    sent_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (event_id, occurrence_at, member_id)
);

CREATE TABLE IF NOT EXISTS community.direct_messages (
    effect_key text        PRIMARY KEY,
    sender     text        NOT NULL REFERENCES community.members,
    recipient  text        NOT NULL REFERENCES community.members,
    text       text        NOT NULL,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The e-mails of an application without an SMTP server.
CREATE TABLE IF NOT EXISTS community.outbox (
    effect_key text        PRIMARY KEY,
    email      text        NOT NULL,
    subject    text        NOT NULL,
    body       text        NOT NULL,
    html       text        NOT NULL,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The recurring tasks work on the columns and tables below. ALTER TABLE adds the columns, so that a database of an
-- earlier version gets them too.

-- Moderators set flagged_at. ACCOUNT_SUSPENSION sets suspended_at. To lift a suspension clear both, because otherwise
-- the next run suspends the member again. The application sets deactivated_at for a member who leaves for good, and
-- may clear it until the grace period is over.
ALTER TABLE community.members
    ADD COLUMN IF NOT EXISTS flagged_at     timestamptz,
    ADD COLUMN IF NOT EXISTS suspended_at   timestamptz,
    ADD COLUMN IF NOT EXISTS deactivated_at timestamptz;
CREATE INDEX IF NOT EXISTS members_flagged ON community.members (flagged_at)
    WHERE flagged_at IS NOT NULL AND suspended_at IS NULL;
CREATE INDEX IF NOT EXISTS members_deactivated ON community.members (deactivated_at) WHERE deactivated_at IS NOT NULL;

-- status is as of the last STATUS_UPDATE. The starts_at of a recurring event moves on to the next occurrence when the
-- reminder is sent. So previous_starts_at keeps the start of the occurrence that is about to take place, or takes
-- place. An event without a place has neither lat nor lon.
ALTER TABLE community.events
    ADD COLUMN IF NOT EXISTS duration interval NOT NULL DEFAULT '1 hour'
        CHECK (duration > interval '0' AND duration <= interval '744 hours'),
    ADD COLUMN IF NOT EXISTS status text NOT NULL DEFAULT 'upcoming'
        CHECK (status IN ('upcoming', 'live', 'finished')),
    ADD COLUMN IF NOT EXISTS previous_starts_at timestamptz,
    ADD COLUMN IF NOT EXISTS lat double precision CHECK (lat BETWEEN -90 AND 90),
    ADD COLUMN IF NOT EXISTS lon double precision
        CHECK (lon BETWEEN -180 AND 180 AND (lat IS NULL) = (lon IS NULL)),
    ADD COLUMN IF NOT EXISTS purge_marked_at timestamptz;
CREATE INDEX IF NOT EXISTS events_unfinished ON community.events (id) WHERE status <> 'finished';
CREATE INDEX IF NOT EXISTS events_start ON community.events (starts_at);

-- The published events that are not finished, counted by cells of one degree: lat 52 is 52 up to 53. A cell without
-- events has no row. A program that draws a map reads this table and does not have to read the events.
CREATE TABLE IF NOT EXISTS community.geo_summary (
    lat            integer     NOT NULL,
    lon            integer     NOT NULL,
    upcoming       integer     NOT NULL,
    live           integer     NOT NULL,
    next_starts_at timestamptz, -- null: all of them have started
    changed_at     timestamptz NOT NULL,
    PRIMARY KEY (lat, lon)
);

CREATE TABLE IF NOT EXISTS community.refresh_tokens (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members,
    expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS refresh_tokens_expiry ON community.refresh_tokens (expires_at);
CREATE INDEX IF NOT EXISTS refresh_tokens_member ON community.refresh_tokens (member_id);

CREATE TABLE IF NOT EXISTS community.one_time_passwords (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members,
    expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS one_time_passwords_expiry ON community.one_time_passwords (expires_at);
CREATE INDEX IF NOT EXISTS one_time_passwords_member ON community.one_time_passwords (member_id);

CREATE TABLE IF NOT EXISTS community.sessions (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members,
    expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_expiry ON community.sessions (expires_at);
CREATE INDEX IF NOT EXISTS sessions_member ON community.sessions (member_id);

-- A moment is shown until expires_at, or for ever if its author journaled it. A moment with deleted_at is hidden. It
-- is purged later.
CREATE TABLE IF NOT EXISTS community.moments (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members,
    body       text        NOT NULL,
    journaled  boolean     NOT NULL DEFAULT false,
    expires_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE INDEX IF NOT EXISTS moments_expiry ON community.moments (expires_at)
    WHERE NOT journaled AND deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS moments_deleted ON community.moments (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS moments_member ON community.moments (member_id);

-- A message with expires_at disappears at that time.
ALTER TABLE community.direct_messages
    ADD COLUMN IF NOT EXISTS expires_at timestamptz,
    ADD COLUMN IF NOT EXISTS purge_marked_at timestamptz;
CREATE INDEX IF NOT EXISTS direct_messages_expiry ON community.direct_messages (expires_at)
    WHERE expires_at IS NOT NULL;

-- A row that is marked for purge is deleted keep_days days of 24 hours after its mark. It is never deleted if
-- keep_days is null, or if its kind has no row here.
CREATE TABLE IF NOT EXISTS community.retention_policies (
    kind      text    PRIMARY KEY CHECK (kind IN ('events', 'scheduled_posts', 'direct_messages', 'notifications')),
    keep_days integer CHECK (keep_days BETWEEN 0 AND 36500)
);
INSERT INTO community.retention_policies (kind, keep_days)
VALUES ('events', 30), ('scheduled_posts', 30), ('direct_messages', 30), ('notifications', 30)
ON CONFLICT (kind) DO NOTHING;
ALTER TABLE community.scheduled_posts ADD COLUMN IF NOT EXISTS purge_marked_at timestamptz;
ALTER TABLE community.notifications ADD COLUMN IF NOT EXISTS purge_marked_at timestamptz;
CREATE INDEX IF NOT EXISTS events_marked ON community.events (purge_marked_at) WHERE purge_marked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS scheduled_posts_marked ON community.scheduled_posts (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS direct_messages_marked ON community.direct_messages (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS notifications_marked ON community.notifications (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;

-- The log of activities. effect_key is the IdempotencyKey of the task that wrote the entry.
CREATE TABLE IF NOT EXISTS community.activities (
    effect_key    text        PRIMARY KEY,
    member_id     text        NOT NULL REFERENCES community.members,
    activity_type text        NOT NULL,
    happened_at   timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS activities_member ON community.activities (member_id, happened_at);

-- These indexes are for foreign keys. Without them the deletion of an account reads whole tables.
CREATE INDEX IF NOT EXISTS communities_host ON community.communities (host);
CREATE INDEX IF NOT EXISTS memberships_member ON community.memberships (member_id);
CREATE INDEX IF NOT EXISTS events_community ON community.events (community_id);
CREATE INDEX IF NOT EXISTS scheduled_posts_community ON community.scheduled_posts (community_id);
CREATE INDEX IF NOT EXISTS scheduled_posts_author ON community.scheduled_posts (author);
CREATE INDEX IF NOT EXISTS notifications_member ON community.notifications (member_id);
CREATE INDEX IF NOT EXISTS direct_messages_sender ON community.direct_messages (sender);
CREATE INDEX IF NOT EXISTS direct_messages_recipient ON community.direct_messages (recipient);
