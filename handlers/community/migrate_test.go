package community_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
)

// A database of an earlier version, with its rows, gets what this one needs.
func TestMigrateAnEarlierVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	for _, sql := range []string{
		`COMMENT ON SCHEMA community IS NULL`,
		`ALTER TABLE community.events DROP COLUMN duration, DROP COLUMN status, DROP COLUMN previous_starts_at,
			DROP COLUMN lat, DROP COLUMN lon, DROP COLUMN purge_marked_at`,
		`ALTER TABLE community.members DROP COLUMN flagged_at, DROP COLUMN suspended_at, DROP COLUMN deactivated_at`,
		`ALTER TABLE community.direct_messages DROP COLUMN expires_at, DROP COLUMN purge_marked_at`,
		`ALTER TABLE community.scheduled_posts DROP COLUMN purge_marked_at`,
		`ALTER TABLE community.notifications DROP COLUMN purge_marked_at`,
		`DROP TABLE community.geo_summary, community.refresh_tokens, community.one_time_passwords, community.sessions,
			community.moments, community.retention_policies, community.activities`,
	} {
		if _, err := w.pool.Exec(w.ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := community.Migrate(w.ctx, w.pool); err != nil {
		t.Fatal(err)
	}
	if event := w.event("42"); event.Status != community.EventUpcoming || event.Duration != time.Hour ||
		event.Lat != nil {
		t.Errorf("%+v", event)
	}
	for _, task := range community.Recurring() {
		w.mustRun(&handlers.Execution{
			ID: task.ID, Type: task.Payload.TaskType(), Payload: []byte("{}"), StartedAt: noon(t), Attempt: 1,
		})
	}
}

// A start that finds this version's schema waits for nobody who uses the tables.
func TestMigrateAgainTakesNoLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(w.ctx) }()
	if _, err := tx.Exec(
		w.ctx, `LOCK TABLE community.members, community.events, community.direct_messages`,
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	if err := community.Migrate(ctx, w.pool); err != nil {
		t.Error(err)
	}
}

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
