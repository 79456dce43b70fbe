package query

// TaskColumns are the columns of a store.Row. Intervals are read as nanoseconds and JSON as text, because every
// driver can scan these.
const TaskColumns = `
    id, payload::text AS payload, type, entity, tenant_id, group_key, queue, status, priority, scheduled_at,
    run_now_at,
    (extract(epoch FROM expiration) * 1000000000)::bigint AS expiration,
    (extract(epoch FROM expected_execution_time) * 1000000000)::bigint AS expected_execution_time,
    max_attempts, backoff, (extract(epoch FROM timeout) * 1000000000)::bigint AS timeout, deadline,
    attempt, revision, asked_revision, next_attempt_at, fence, lease_expires_at, message,
    result::text AS result, scheduled_by, trace, created_at, last_status_update, started_at, finished_at,
    started_fence, node,
    cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit,
    (extract(epoch FROM jitter) * 1000000000)::bigint AS jitter, ends_at,
    max_occurrences, occurrence_count, parent_id, planned_revision, paused_until,
    (extract(epoch FROM retention) * 1000000000)::bigint AS retention, archived_at, archived_note, spawned_by,
    if_dead::text AS if_dead, waiting_since, waits`
