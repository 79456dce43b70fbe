package community_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

func TestExpiredTokensAreDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, before, after := around(noon(t))
	for _, table := range []string{"refresh_tokens", "one_time_passwords", "sessions"} {
		s.exec(`INSERT INTO community.`+table+` (id, member_id, expires_at)
			VALUES ('just', 'member-1', $1), ('before', 'member-1', $2),
			('after', 'member-2', $3)`, just, before, after)
	}
	s.exec(`DELETE FROM community.sessions WHERE id = 'before'`)
	s.sweeps(contract.TokenCleanup{}, noon(t), community.Swept{
		"refresh_tokens": 2, "one_time_passwords": 2, "sessions": 1,
	})
	s.mustList(`SELECT id FROM community.refresh_tokens`, "after")
	s.mustList(`SELECT id FROM community.one_time_passwords`, "after")
	s.mustList(`SELECT id FROM community.sessions`, "after")
	s.sweeps(contract.TokenCleanup{}, after, community.Swept{
		"refresh_tokens": 1, "one_time_passwords": 1, "sessions": 1,
	})
}

// Each run is bounded, over all its tables, and the next one comes a second after its start.
func TestManyRowsTakeSeveralRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`INSERT INTO community.refresh_tokens (member_id, expires_at) SELECT 'member-1', $1
		FROM generate_series(1, $2::int)`, noon(t), community.MostRows+1)
	s.exec(`INSERT INTO community.sessions (member_id, expires_at) SELECT 'member-1', $1
		FROM generate_series(1, $2::int)`, noon(t), community.MostRows+5)
	before := s.content()
	results := s.ran(contract.TokenCleanup{}, noon(t))
	if len(results) != 3 || results[2]["sessions"] != 6 || results[2]["refresh_tokens"] != 0 {
		t.Errorf("%d runs, the last %v", len(results), results[len(results)-1])
	}
	s.mustList(`SELECT id FROM community.refresh_tokens UNION ALL SELECT id FROM community.sessions`)
	for table, content := range s.content() {
		if table != "refresh_tokens" && table != "sessions" && content != before[table] {
			t.Errorf("it has changed %s", table)
		}
	}
	history, err := s.tasks.History(s.ctx, s.tx, "run-1")
	if err != nil || len(history.Executions) != 3 {
		t.Errorf("%d executions, %v", len(history.Executions), err)
	}
}

func TestExpiredMomentsAreTakenFromSight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, before, after := around(noon(t))
	s.exec(`INSERT INTO community.moments (id, member_id, body, journaled, expires_at, deleted_at) VALUES
		('just', 'member-1', 'x', false, $1, NULL), ('before', 'member-1', 'x', false, $2, NULL),
		('after', 'member-2', 'x', false, $3, NULL),
		('journaled', 'member-1', 'x', true, $2, NULL),
		('deleted', 'member-1', 'x', false, $2, $2)`, just, before, after)
	s.sweeps(contract.MomentCleanup{}, noon(t), community.Swept{"moments": 2})
	s.mustList(`SELECT id || ' ' || coalesce(to_char(deleted_at AT TIME ZONE 'UTC', 'HH24:MI:SS.US'), '-')
		FROM community.moments ORDER BY id`,
		"after -", "before 12:00:00.000000", "deleted 11:59:59.999999", "journaled -", "just 12:00:00.000000")
	s.sweeps(contract.MomentCleanup{}, noon(t).AddDate(1, 0, 0), community.Swept{"moments": 1})
}

func TestMomentsArePurgedAfterAWeek(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, before, after := around(noon(t).Add(-community.MomentRetention))
	s.exec(`INSERT INTO community.moments (id, member_id, body, journaled, expires_at, deleted_at) VALUES
		('just', 'member-1', 'x', false, $1, $1), ('before', 'member-1', 'x', false, $1, $2),
		('after', 'member-2', 'x', false, $1, $3),
		('journaled', 'member-1', 'x', true, $1, $2),
		('in sight', 'member-1', 'x', false, $1, NULL)`, just, before, after)
	s.sweeps(contract.MomentPurge{}, noon(t), community.Swept{"moments": 3})
	s.mustList(`SELECT id FROM community.moments ORDER BY id`, "after", "in sight")
}

// Over a change of daylight saving a week is 168 hours, in whatever zone the session is.
func TestAWeekIsOfHours(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`SET LOCAL TIME ZONE 'Europe/Berlin'`)
	at := clock(t, "2035-03-28T12:00:00Z") // clocks changed on the 25th
	just, _, after := around(at.Add(-168 * time.Hour))
	s.exec(`INSERT INTO community.moments (id, member_id, body, expires_at, deleted_at)
		VALUES ('just', 'member-1', 'x', $1, $1), ('after', 'member-1', 'x', $1, $2)`, just, after)
	s.exec(`INSERT INTO community.direct_messages (effect_key, sender, recipient, text, purge_marked_at)
		VALUES ('just', 'member-1', 'member-2', 'x', $1), ('after', 'member-1', 'member-2', 'x', $2)`, just, after)
	s.exec(`UPDATE community.retention_policies SET keep_days = 7 WHERE kind = 'direct_messages'`)
	s.sweeps(contract.MomentPurge{}, at, community.Swept{"moments": 1})
	s.sweeps(contract.Purge{}, at, community.Swept{"direct_messages": 1})
}

func TestDisappearingMessagesDisappear(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, before, after := around(noon(t))
	s.exec(`INSERT INTO community.direct_messages (effect_key, sender, recipient, text, expires_at) VALUES
		('just', 'member-1', 'member-2', 'x', $1), ('before', 'member-1', 'member-2', 'x', $2),
		('after', 'member-1', 'member-2', 'x', $3),
		('lasting', 'member-1', 'member-2', 'x', NULL)`, just, before, after)
	s.sweeps(contract.MessageExpiry{}, noon(t), community.Swept{"direct_messages": 2})
	s.mustList(`SELECT effect_key FROM community.direct_messages ORDER BY 1`, "after", "lasting")
}
