package inspect

// limitsFindingsSQL finds the limits that hold back due tasks. After an hour it warns. It also warns of a limit whose
// type or queue nobody has, because the name may be wrong. While no node runs, it does not know that.
const limitsFindingsSQL = `
WITH node AS MATERIALIZED (
    SELECT n.types, n.queues FROM tasktable.nodes AS n WHERE n.dead_at IS NULL
), used AS MATERIALIZED (
    SELECT l.queue, l.type FROM tasktable.lanes AS l
    UNION SELECT t.queue::text, t.type::text FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
), state AS MATERIALIZED (
    SELECT l.*, CASE l.scope WHEN 'all' THEN '' ELSE ' of ' || l.scope || ' ' || l.scope_name END AS of
    FROM tasktable.limit_states() AS l
)
SELECT CASE WHEN w.oldest_due_at < statement_timestamp() - interval '1 hour' THEN 'warning' ELSE 'info' END AS level,
    'limit ' || s.name || ' holds back ' || w.waiting || CASE WHEN w.waiting_more THEN ' or more' ELSE '' END
        || ' due task' || CASE w.waiting WHEN 1 THEN '' ELSE 's' END || s.of AS what,
    1 AS count, false AS more, w.oldest_id, w.oldest_due_at AS oldest_at,
    concat_ws(', ', CASE WHEN s.running >= s.max_running THEN s.running || ' of ' || s.max_running || ' run'
            || coalesce(' of a ' || s.per, '') END,
        s.rate || ' may start in ' || (extract(epoch FROM s.rate_interval)::float8)::text || 's',
        'the next at ' || to_char(CASE WHEN s.next_start_at > statement_timestamp() THEN s.next_start_at END
            AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) AS detail,
    'nothing, if they may wait so long; or let more start: tasktable limits set ' || s.name || ' …' AS "do"
FROM tasktable.limit_waits($1::text::bigint) AS w JOIN state AS s ON s.name = w.name
UNION ALL
SELECT 'warning', 'limit ' || s.name || ' counts the tasks' || s.of || ', but no node and no waiting task has this '
    || s.scope, 1, false, NULL, NULL, '', 'tasktable limits remove ' || s.name
    || ', or tasktable limits set ' || s.name || ' with another name of a ' || s.scope
FROM state AS s
WHERE EXISTS (SELECT FROM node) AND CASE s.scope
    WHEN 'queue' THEN NOT EXISTS (SELECT FROM node WHERE jsonb_exists(node.queues, s.scope_name))
        AND NOT EXISTS (SELECT FROM used WHERE used.queue = s.scope_name)
    WHEN 'type' THEN NOT EXISTS (SELECT FROM node WHERE s.scope_name = ANY (node.types))
        AND NOT EXISTS (SELECT FROM used WHERE used.type = s.scope_name) END
ORDER BY level DESC, oldest_at, what LIMIT $1::text::int`
