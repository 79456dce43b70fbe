package demo

import "slices"

// question is a question of the audit, which SQL answers. If expects is set, any other answer is a failure of the
// demo.
type question struct {
	asks    string
	sql     string
	expects string // the rows, cells joined by a space, rows by a comma
}

// questions returns the questions, such as a team would ask. $1 is the end of the ids of this run.
func questions() []question {
	return slices.Concat(userQuestions(), operatorQuestions(), communityQuestions())
}

func userQuestions() []question {
	return []question{
		{"Did each thing happen, and how often?", `
SELECT type, status, count(*), coalesce(sum(attempt), 0) AS attempts
FROM tasktable_demo.scheduled_tasks WHERE (id LIKE '%' || $1 OR tenant_id = 'club' || $1) AND cron IS NULL
GROUP BY type, status ORDER BY type, status`,
			"HEADCOUNT COMPLETED 4 4, HEADCOUNT SKIPPED 1 0, PRINT_BADGE COMPLETED 2 2, PRINT_BADGE FAILED 1 1, " +
				"PUBLISH_EVENT COMPLETED 1 1, PUBLISH_SCHEDULED_POST COMPLETED 1 1, " +
				"SEND_DIRECT_MESSAGE COMPLETED 2 2, SEND_DIRECT_MESSAGE QUEUED 1 0, SEND_EMAIL COMPLETED 1 2, " +
				"SEND_EVENT_REMINDER CANCELLED 2 0, SEND_EVENT_REMINDER COMPLETED 2 2, " +
				"SEND_EVENT_REMINDER EXPIRED 1 0, SEND_EVENT_REMINDER QUEUED 3 0, WELCOME_MEMBER COMPLETED 1 1"},
		{"Who was reminded of what? (exactly once each)", `
SELECT split_part(event_id, $1, 1) AS event, count(*) AS notifications
FROM community.notifications WHERE event_id LIKE '%' || $1 GROUP BY event_id ORDER BY event_id`,
			"book-club 1, dinner 1, stand-up 1"},
		{"The book club moved; did its reminder move?", `
SELECT verb, outcome, changed_by FROM tasktable_demo.scheduled_task_changes
WHERE task_id = 'task-SEND_EVENT_REMINDER-book-club' || $1 ORDER BY revision`,
			"sync created demo, sync rescheduled demo"},
		{"The dinner was edited while its reminder ran; what became of the two runs?", `
SELECT outcome, attempt FROM tasktable_demo.scheduled_task_executions
WHERE task_id = 'task-SEND_EVENT_REMINDER-dinner' || $1 ORDER BY fence`,
			"SUPERSEDED 1, COMPLETED 1"},
		{"Why did no reminder of the lecture go out?", `
SELECT status, message FROM tasktable_demo.scheduled_tasks WHERE id = 'task-SEND_EVENT_REMINDER-lecture' || $1`,
			"EXPIRED expired before it could start"},
		{"What went wrong with the mail, and was it mended?", `
SELECT e.outcome, e.attempt, e.error FROM tasktable_demo.scheduled_task_executions AS e
JOIN tasktable_demo.scheduled_tasks AS t ON t.id = e.task_id
WHERE t.tenant_id = 'club' || $1 AND t.type = 'SEND_EMAIL' ORDER BY e.fence`,
			"RETRIED 1 451 4.3.2 the mail server is not accepting messages just now, COMPLETED 2 "},
		{"How late did tasks start? (without those that were paused)", `
SELECT count(e.started_at) AS starts, round(1000 * max(extract(epoch FROM e.started_at - e.due_at)))::int AS most_ms,
    round(1000 * percentile_cont(0.5) WITHIN GROUP (
        ORDER BY extract(epoch FROM e.started_at - e.due_at)))::int AS median_ms,
    count(*) FILTER (WHERE e.started_at < e.due_at) AS early
FROM tasktable_demo.scheduled_task_executions AS e JOIN tasktable_demo.scheduled_tasks AS t ON t.id = e.task_id
WHERE (t.id LIKE '%' || $1 OR t.tenant_id = 'club' || $1) AND t.id NOT IN ('message' || $1, 'letter' || $1)`, ""},
	}
}

func operatorQuestions() []question {
	return []question{
		{"The head count fires every 3 seconds, and the third took 4: what became of each fire?", `
SELECT extract(epoch FROM scheduled_at - min(scheduled_at) OVER ())::int AS second, status,
    split_part(message, ':', 1) AS why
FROM tasktable_demo.scheduled_tasks WHERE parent_id = 'headcount' || $1 ORDER BY scheduled_at`,
			"0 COMPLETED , 3 COMPLETED , 6 COMPLETED , 9 SKIPPED an earlier occurrence has not ended, 12 COMPLETED "},
		{"And what of the recurring task itself?", `
SELECT cron, status, occurrence_count, next_fire, message FROM tasktable_demo.recurring_tasks
WHERE id = 'headcount' || $1`,
			"@every 3s COMPLETED 4  ended after 4 occurrences"},
		{"The message was due at +3 s and paused until +6 s; who resumed it, and when did it start?", `
SELECT c.verb, c.outcome, c.changed_by,
    coalesce(e.started_at >= t.scheduled_at + interval '3 seconds', false) AS started_after_it
FROM tasktable_demo.scheduled_task_changes AS c JOIN tasktable_demo.scheduled_tasks AS t ON t.id = c.task_id
LEFT JOIN tasktable_demo.scheduled_task_executions AS e ON e.task_id = t.id AND e.revision = c.revision
WHERE t.id = 'message' || $1 ORDER BY c.revision`,
			"schedule created demo false, pause paused demo false, resume queued leader true"},
		{"The letter was written while its queue was paused; when did it start?", `
SELECT p.scope, p.name, p.paused_by, p.resumed_by, t.status, e.started_at >= p.ends_at AS started_after_it
FROM tasktable_demo.pauses AS p, tasktable_demo.scheduled_tasks AS t
    JOIN tasktable_demo.scheduled_task_executions AS e ON e.task_id = t.id
WHERE p.reason = 'strike of club' || $1 AND t.id = 'letter' || $1`,
			"queue letters demo demo COMPLETED true"},
		{"Which badges failed for good, and what was done about it?", `
SELECT split_part(c.task_id, '-', 3) AS badge, c.verb, c.outcome, c.changed_by, t.status, t.archived_note
FROM tasktable_demo.scheduled_task_changes AS c JOIN tasktable_demo.scheduled_tasks AS t ON t.id = c.task_id
WHERE t.type = 'PRINT_BADGE' AND t.tenant_id = 'club' || $1 AND c.verb <> 'schedule' ORDER BY c.task_id`,
			"ghost archive archived demo FAILED never joined, guest retry queued demo COMPLETED , " +
				"host retry queued demo COMPLETED "},
		{"Do the reminders fit the events that were edited behind the application's back?", `
SELECT split_part(split_part(t.id, '-', 3), '-', 1) AS event, t.status,
    t.scheduled_at = e.starts_at - e.reminder_before AS in_time, c.verb, c.outcome
FROM tasktable_demo.scheduled_tasks AS t JOIN tasktable_demo.scheduled_task_changes AS c ON c.revision = t.revision
LEFT JOIN community.events AS e ON t.entity = 'event:' || e.id
WHERE t.id LIKE 'task-SEND_EVENT_REMINDER-%' || $1 AND split_part(t.id, '-', 3) IN ('hike', 'concert', 'talk')
ORDER BY t.id`,
			"concert CANCELLED  cancel cancelled, hike QUEUED true reconcile rescheduled, " +
				"talk QUEUED true reconcile created"},
	}
}

func communityQuestions() []question {
	return []question{
		{"Which recurring tasks does the community declare, and are they planned?", `
SELECT id, cron, status, next_fire IS NOT NULL AS planned FROM tasktable_demo.recurring_tasks
WHERE declared_by = 'demo' ORDER BY id`,
			"community-account-suspension 0 */12 * * * QUEUED true, " +
				"community-deactivated-account-purge 20 3 * * * QUEUED true, " +
				"community-geo-summary-refresh */5 * * * * QUEUED true, " +
				"community-message-expiry */30 * * * * * QUEUED true, " +
				"community-moment-cleanup */5 * * * * QUEUED true, community-moment-purge 30 3 * * * QUEUED true, " +
				"community-purge 10 3 * * * QUEUED true, community-status-update */5 * * * * QUEUED true, " +
				"community-token-cleanup 0 * * * * QUEUED true"},
		{"What came of the two that were run at once?", `
SELECT t.parent_id, c.verb, c.changed_by, t.status
FROM tasktable_demo.scheduled_tasks AS t JOIN tasktable_demo.scheduled_task_changes AS c ON c.task_id = t.id
WHERE c.changed_by = 'demo' AND c.verb = 'fork'
    AND c.changed_at > (SELECT min(changed_at) FROM tasktable_demo.scheduled_task_changes
        WHERE task_id LIKE '%' || $1) ORDER BY t.parent_id`,
			"community-message-expiry fork demo COMPLETED, community-status-update fork demo COMPLETED"},
		{"Is the lecture over, the stand-up live, and the disappearing message gone?", `
SELECT split_part(id, $1, 1) AS event, status, (SELECT count(*) FROM community.direct_messages
    WHERE effect_key = 'secret' || $1) AS messages
FROM community.events WHERE id IN ('lecture' || $1, 'stand-up' || $1) ORDER BY id`,
			"lecture finished 0, stand-up live 0"},
	}
}
