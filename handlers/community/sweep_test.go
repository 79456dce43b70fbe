package community_test

import (
	"slices"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
)

// A run does not wait for who is at work on a row, and leaves that row to a later one.
func TestARunPassesOverLockedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.pool.Exec(w.ctx, `INSERT INTO community.sessions (id, member_id, expires_at)
		VALUES ('1', 'member-1', $1), ('2', 'member-1', $1)`, noon(t)); err != nil {
		t.Fatal(err)
	}
	w.create(community.Event{ID: "1", CommunityID: "home", Title: "x", StartsAt: noon(t)})
	w.create(community.Event{ID: "2", CommunityID: "home", Title: "x", StartsAt: noon(t)})
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"sessions", "events"} {
		if _, err := tx.Exec(w.ctx, `SELECT FROM community.`+table+` WHERE id = '1' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
	}
	run := func(wantSessions, wantEvents []string) {
		t.Helper()
		for _, name := range []string{"TOKEN_CLEANUP", "STATUS_UPDATE"} {
			w.mustRun(&handlers.Execution{ID: "run", Type: name, Payload: []byte("{}"), StartedAt: noon(t), Attempt: 1})
		}
		if got := w.texts(`SELECT id FROM community.sessions`); !slices.Equal(got, wantSessions) {
			t.Errorf("sessions %q", got)
		}
		if got := w.texts(statusesSQL); !slices.Equal(got, wantEvents) {
			t.Errorf("events %q", got)
		}
	}
	run([]string{"1"}, []string{"1 upcoming", "2 live"})
	if err := tx.Rollback(w.ctx); err != nil {
		t.Fatal(err)
	}
	run([]string{}, []string{"1 live", "2 live"})
}
