//go:build unix

package cmd

import (
	"strings"
	"syscall"
	"testing"
)

// No node runs for two hours. The next leader forks the fires before the watch looks, and people are told all the same,
// but not of fires that a pause has held back, nor of those that somebody has made by hand.
func TestANodeTellsTheFiresThatWereMissedWithoutNodes(t *testing.T) {
	t.Parallel()
	n := newNewsroom(t)
	execute(t, n.url, `UPDATE tasktable.notice_rules SET after = '5 minutes'`)
	first := n.node()
	execute(t, n.url, `SELECT tasktable.schedule_recurring(payload::jsonb, '0 0 29 2 *', id, catch_up => policy,
			catch_up_paused => 'latest')
		FROM (VALUES ('nightly', '{"type": "LOG"}', 'latest'), ('edited', '{"type": "LOG"}', 'latest'),
			('left-out', '{"type": "LOG"}', 'none'), ('by-hand', '{"type": "LOG"}', 'latest'),
			('held', '{"type": "EXEC", "command": "mended"}', 'latest')) AS one (id, payload, policy)`)
	ask(t, n.url, `SELECT count(*) FROM tasktable.recurring_tasks WHERE next_fire IS NOT NULL AND id <> 'notice-watch'`,
		"5")
	first.signal(syscall.SIGTERM)
	first.end().want(t, exitOK)
	execute(t, n.url, `
		SELECT tasktable.cancel(id) FROM tasktable.scheduled_tasks WHERE parent_id = 'notice-watch';
		SELECT tasktable.delete(id) FROM tasktable.scheduled_tasks WHERE parent_id = 'notice-watch';
		UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() - interval '2 hours'
		WHERE cron IS NOT NULL AND id <> 'by-hand';
		UPDATE tasktable.nodes SET marks = NULL; -- the leader has marked these lanes after that time
		SELECT tasktable.schedule_recurring('{"type": "LOG", "message": "new"}', '0 0 29 2 *', 'edited');
		SELECT tasktable.schedule_recurring('{"type": "LOG"}', '* * * * *', 'new',
			starts_at => now() - interval '1 day');
		SELECT tasktable.pause_scope('type', 'EXEC');
		UPDATE tasktable.pauses SET paused_at = now() - interval '3 hours', ends_at = now() - interval '1 hour';
		SELECT tasktable.fork_occurrence('by-hand', now() - interval '2 hours', NULL, 'ann', false, true)`)
	second := n.node()
	for _, id := range []string{"nightly", "edited", "left-out"} {
		n.gets(func(one letter) bool {
			return strings.Contains(one.body, " "+id+" (LOG) missed fires: ") &&
				strings.Contains(one.body, "\ntasktable why "+id+"\n")
		}, func() { execute(n.t, n.url, `SELECT tasktable.run_now('notice-watch')`) })
	}
	ask(t, n.url, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IN ('held', 'by-hand')`, "2")
	ask(t, n.url, `SELECT string_agg(c.task_id || ': ' || regexp_replace(c.detail, ' 2\S+ \S+ UTC', '', 'g'), ', '
			ORDER BY c.task_id)
		FROM tasktable.notice_causes AS c WHERE c.event = 'missed'`,
		"edited: its fire of happened at, left-out: its fire of was skipped at, nightly: its fire of happened at")
	for _, id := range []string{"nightly", "edited", "left-out"} {
		n.tells("recovered", id)
	}
	second.signal(syscall.SIGTERM)
	second.end().want(t, exitOK)
}
