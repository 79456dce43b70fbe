-- The community's own tables. They do not refer to tasks. The application changes its tables and the tasks in one
-- transaction.

CREATE SCHEMA community;

-- Moderators set flagged_at. ACCOUNT_SUSPENSION sets suspended_at. To lift a suspension clear both, because otherwise
-- the next run suspends the member again. The application sets deactivated_at for a member who leaves for good, and
-- may clear it until the grace period is over.
CREATE TABLE community.members (
    id             text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    email          text NOT NULL,
    flagged_at     timestamptz,
    suspended_at   timestamptz,
    deactivated_at timestamptz
);
CREATE INDEX members_flagged ON community.members (flagged_at)
    WHERE flagged_at IS NOT NULL AND suspended_at IS NULL;
CREATE INDEX members_deactivated ON community.members (deactivated_at) WHERE deactivated_at IS NOT NULL;

CREATE TABLE community.communities (
    id    text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    title text NOT NULL,
    host  text REFERENCES community.members ON DELETE SET NULL -- greets the new members
);

CREATE TABLE community.memberships (
    id           text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id text        NOT NULL REFERENCES community.communities,
    member_id    text        NOT NULL REFERENCES community.members,
    joined_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (community_id, member_id)
);

-- starts_local is the local time that the calendar shows. A recurring event keeps it when the clocks change.
-- starts_at is the instant of starts_local. Both are stored, because on a day on which the clocks skip starts_local,
-- starts_at shows another local time.
--
-- status is as of the last STATUS_UPDATE. The starts_at of a recurring event moves on to the next occurrence when the
-- reminder is sent. So previous_starts_at keeps the start of the occurrence that is about to take place, or takes
-- place. An event without a place has neither lat nor lon.
CREATE TABLE community.events (
    id              text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id    text        NOT NULL REFERENCES community.communities,
    title           text        NOT NULL,
    starts_at       timestamptz NOT NULL,
    starts_local    timestamp   NOT NULL,
    time_zone       text        NOT NULL,
    repeat_days     integer     NOT NULL CHECK (repeat_days BETWEEN 0 AND 366),
    reminder_before interval    NOT NULL CHECK (reminder_before > interval '0'),
    publish_at      timestamptz NOT NULL,
    published_at    timestamptz,
    duration        interval    NOT NULL DEFAULT '1 hour'
        CHECK (duration > interval '0' AND duration <= interval '744 hours'),
    status          text        NOT NULL DEFAULT 'upcoming' CHECK (status IN ('upcoming', 'live', 'finished')),
    lat             double precision CHECK (lat BETWEEN -90 AND 90),
    lon             double precision CHECK (lon BETWEEN -180 AND 180 AND (lat IS NULL) = (lon IS NULL)),
    previous_starts_at timestamptz,
    purge_marked_at timestamptz
);
CREATE INDEX events_unfinished ON community.events (id) WHERE status <> 'finished';
CREATE INDEX events_start ON community.events (starts_at);

CREATE TABLE community.scheduled_posts (
    id           text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    community_id text        NOT NULL REFERENCES community.communities,
    author       text        NOT NULL REFERENCES community.members,
    body         text        NOT NULL,
    publish_at   timestamptz NOT NULL,
    published_at timestamptz,
    purge_marked_at timestamptz
);

-- A notification stays when its event is deleted. The primary key guarantees one reminder for each occurrence and
-- member. effect_key is the IdempotencyKey of the task that wrote the row, so it leads to the history of that task.
CREATE TABLE community.notifications (
    event_id      text        NOT NULL,
    occurrence_at timestamptz NOT NULL,
    member_id     text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    text          text        NOT NULL,
    effect_key    text        NOT NULL,
    sent_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    purge_marked_at timestamptz,
    PRIMARY KEY (event_id, occurrence_at, member_id)
);

-- A message with expires_at disappears at that time.
CREATE TABLE community.direct_messages (
    effect_key text        PRIMARY KEY,
    sender     text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    recipient  text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    text       text        NOT NULL,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    purge_marked_at timestamptz
);
CREATE INDEX direct_messages_expiry ON community.direct_messages (expires_at)
    WHERE expires_at IS NOT NULL;

-- The e-mails of an application without an SMTP server.
CREATE TABLE community.outbox (
    effect_key text        PRIMARY KEY,
    email      text        NOT NULL,
    subject    text        NOT NULL,
    body       text        NOT NULL,
    html       text        NOT NULL,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The published events that are not finished, counted by cells of one degree: lat 52 is 52 up to 53. A cell without
-- events has no row. A program that draws a map reads this table and does not have to read the events.
CREATE TABLE community.geo_summary (
    lat            integer     NOT NULL,
    lon            integer     NOT NULL,
    upcoming       integer     NOT NULL,
    live           integer     NOT NULL,
    next_starts_at timestamptz, -- null: all of them have started
    changed_at     timestamptz NOT NULL,
    PRIMARY KEY (lat, lon)
);

CREATE TABLE community.refresh_tokens (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);
CREATE INDEX refresh_tokens_expiry ON community.refresh_tokens (expires_at);
CREATE INDEX refresh_tokens_member ON community.refresh_tokens (member_id);

CREATE TABLE community.one_time_passwords (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);
CREATE INDEX one_time_passwords_expiry ON community.one_time_passwords (expires_at);
CREATE INDEX one_time_passwords_member ON community.one_time_passwords (member_id);

CREATE TABLE community.sessions (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_expiry ON community.sessions (expires_at);
CREATE INDEX sessions_member ON community.sessions (member_id);

-- A moment is shown until expires_at, or for ever if its author journaled it. A moment with deleted_at is hidden. It
-- is purged later.
CREATE TABLE community.moments (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    member_id  text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    body       text        NOT NULL,
    journaled  boolean     NOT NULL DEFAULT false,
    expires_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE INDEX moments_expiry ON community.moments (expires_at)
    WHERE NOT journaled AND deleted_at IS NULL;
CREATE INDEX moments_deleted ON community.moments (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX moments_member ON community.moments (member_id);

-- A row that is marked for purge is deleted keep_days days of 24 hours after its mark. It is never deleted if
-- keep_days is null, or if its kind has no row here.
CREATE TABLE community.retention_policies (
    kind      text    PRIMARY KEY CHECK (kind IN ('events', 'scheduled_posts', 'direct_messages', 'notifications')),
    keep_days integer CHECK (keep_days BETWEEN 0 AND 36500)
);
INSERT INTO community.retention_policies (kind, keep_days)
VALUES ('events', 30), ('scheduled_posts', 30), ('direct_messages', 30), ('notifications', 30);
CREATE INDEX events_marked ON community.events (purge_marked_at) WHERE purge_marked_at IS NOT NULL;
CREATE INDEX scheduled_posts_marked ON community.scheduled_posts (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;
CREATE INDEX direct_messages_marked ON community.direct_messages (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;
CREATE INDEX notifications_marked ON community.notifications (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL;

-- The log of activities. effect_key is the IdempotencyKey of the task that wrote the entry.
CREATE TABLE community.activities (
    effect_key    text        PRIMARY KEY,
    member_id     text        NOT NULL REFERENCES community.members ON DELETE CASCADE,
    activity_type text        NOT NULL,
    happened_at   timestamptz NOT NULL
);
CREATE INDEX activities_member ON community.activities (member_id, happened_at);

-- These indexes are for foreign keys. Without them the deletion of an account reads whole tables.
CREATE INDEX communities_host ON community.communities (host);
CREATE INDEX memberships_member ON community.memberships (member_id);
CREATE INDEX events_community ON community.events (community_id);
CREATE INDEX scheduled_posts_community ON community.scheduled_posts (community_id);
CREATE INDEX scheduled_posts_author ON community.scheduled_posts (author);
CREATE INDEX notifications_member ON community.notifications (member_id);
CREATE INDEX direct_messages_sender ON community.direct_messages (sender);
CREATE INDEX direct_messages_recipient ON community.direct_messages (recipient);
