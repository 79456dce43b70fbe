package community_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// The entry has the time of the request, is written once, and not at all if the request is rolled back.
func TestAnActivityIsLoggedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	login := contract.LogActivity{MemberID: "member-1", ActivityType: "login"}
	rolledBack := errors.New("the request failed")
	if err := w.refused(func(tx pgx.Tx) error {
		if err := w.app.LogActivity(w.ctx, tx, login); err != nil {
			return err
		}
		return rolledBack
	}); !errors.Is(err, rolledBack) {
		t.Fatal(err)
	}
	w.do(func(tx pgx.Tx) error { return w.app.LogActivity(w.ctx, tx, login) })
	ids := w.texts(`SELECT id FROM tasktable.scheduled_tasks WHERE type = 'activity:log'`)
	if len(ids) != 1 {
		t.Fatalf("tasks %q, want that of the commit", ids)
	}
	row := w.task(ids[0])
	for i := range 2 { // as if the attempt were repeated an hour later
		effects := w.mustRun(attempt(row, row.ScheduledAt.Add(time.Hour)))
		if told := effects.Note != ""; told != (i > 0) {
			t.Errorf("run %d: note %q", i, effects.Note)
		}
	}
	if got := w.texts(`SELECT a.member_id || ' ' || a.activity_type FROM community.activities AS a
		JOIN tasktable.scheduled_tasks AS t ON t.scheduled_at = a.happened_at`); !slices.Equal(got,
		[]string{"member-1 login"}) {
		t.Errorf("entries %q", got)
	}
}

func TestActivitiesThatCannotBeLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nothing := contract.LogActivity{MemberID: "member-1"}
	if err := w.refused(func(tx pgx.Tx) error {
		return w.app.LogActivity(w.ctx, tx, nothing)
	}); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "ActivityType") {
		t.Error(err)
	}
	run := func(payload string) (handlers.Effects, error) {
		return w.run(&handlers.Execution{ID: "activity", Type: "activity:log", Payload: []byte(payload), Attempt: 1,
			ScheduledAt: noon(t)})
	}
	for _, payload := range []string{`{"type": "activity:log", "user_id": "member-1"}`, `{"user_id": 7}`} {
		var permanent *handlers.PermanentError
		if _, err := run(payload); !errors.As(err, &permanent) {
			t.Errorf("%s: %v, want a permanent error", payload, err)
		}
	}
	effects, err := run(`{"user_id": "nobody", "activity_type": "login"}`)
	if err != nil || !strings.Contains(effects.Note, "gone") {
		t.Errorf("%+v, %v", effects, err)
	}
}
