-- The community's own tables. They know nothing of tasks: it is the application that changes both in one transaction.

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

-- starts_local is what the calendar shows, and what a recurring event keeps when the clocks change; starts_at is the instant
-- this comes to. On a day on which the clocks skip starts_local the two differ, so neither can be computed from the other.
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

-- What was sent stays when the event is deleted. The primary key is the promise: one reminder for each occurrence and member.
-- effect_key is the IdempotencyKey of the task that wrote the row, and leads from here to its history.
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

-- Where e-mails go that no server is configured for.
CREATE TABLE IF NOT EXISTS community.outbox (
    effect_key text        PRIMARY KEY,
    email      text        NOT NULL,
    subject    text        NOT NULL,
    body       text        NOT NULL,
    html       text        NOT NULL,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
