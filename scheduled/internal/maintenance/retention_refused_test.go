package maintenance

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Rows that an application's foreign key or trigger keeps, in whatever table and however many, do not keep the others.
// The log and the node's line tell of them.
func TestRetentionGoesPastWhatItCannotRemove(t *testing.T) {
	t.Parallel()
	const refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'kept by us'; END $$;`
	for name, test := range map[string]struct {
		sql  string
		left func(kept string) string // ids of tasks; executions; changes
		why  string
	}{
		"a foreign key": {`CREATE TABLE invoices (task text REFERENCES tasktable.scheduled_tasks (id));
			INSERT INTO invoices SELECT id FROM tasktable.scheduled_tasks WHERE id LIKE 'kept%'`,
			func(kept string) string { return kept + "; ; " + kept }, "violates foreign key"},
		"a foreign key that is checked at the commit": {
			`CREATE TABLE invoices (task text REFERENCES tasktable.scheduled_tasks (id) DEFERRABLE INITIALLY DEFERRED);
			INSERT INTO invoices SELECT id FROM tasktable.scheduled_tasks WHERE id LIKE 'kept%'`,
			func(kept string) string { return kept + "; ; " + kept }, "violates foreign key"},
		"a trigger on the history": {
			refuse + `CREATE TRIGGER refuse BEFORE DELETE ON tasktable.scheduled_task_executions
			FOR EACH ROW WHEN (OLD.task_id LIKE 'kept%') EXECUTE FUNCTION refuse()`,
			func(kept string) string { return kept + "; " + kept + "; " + kept }, "kept by us"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var kept []string
			for i := range 60 { // more than a page has
				kept = append(kept, fmt.Sprintf("kept %02d", i))
				b.old(kept[i], "JOB", 91*day, nil)
				b.old(fmt.Sprintf("old %02d", i), "JOB", 91*day, nil)
			}
			b.Exec(test.sql)
			b.Exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types)
				VALUES ('test', '', '', '{}', '{}')`)
			var log enginetest.LogText
			r := b.retainerOf(90*day, nil)
			r.config.Node, r.config.Log = 1, slog.New(slog.NewTextHandler(&log, nil))
			var at Place
			var round Retained
			for began := true; began || at != (Place{}); began = false {
				b.InTx(func(tx pgx.Tx) {
					next, done, err := r.step(t.Context(), tx, &noon, at)
					b.OK(err)
					at = next
					round.add(done)
				})
			}
			if got, want := b.left(), test.left(strings.Join(kept, " ")); got != want {
				t.Errorf("left are %s\nwant %s", got, want)
			}
			b.OK(r.endRound(t.Context(), round))
			note := enginetest.Ask[string](b.Bench, `SELECT retention_refused FROM tasktable.nodes`)
			if !strings.Contains(note, "the first of task kept 00") || !strings.Contains(note, test.why) {
				t.Errorf("the node's note is %q", note)
			}
			if lines := log.Lines("level=ERROR", "skips them", "kept 00", test.why); len(lines) == 0 {
				t.Errorf("the log does not tell of it: %s", log.Text.String())
			}
			b.OK(r.endRound(t.Context(), Retained{}))
			var noted bool
			err := b.Pool.QueryRow(
				t.Context(), `SELECT retention_refused IS NOT NULL FROM tasktable.nodes`,
			).Scan(&noted)
			if err != nil || noted {
				t.Errorf("the note stays after a round without trouble: %t, %v", noted, err)
			}
		})
	}
}

// A batch goes past many pages of which each has a row that cannot be removed. The next batch is no smaller for it.
func TestRetentionGoesPastManyPagesInOneBatch(t *testing.T) {
	b := newBench(t)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, status, finished_at)
		SELECT 'old ' || i, jsonb_build_object('type', 'JOB', 'text', repeat('x', 1000)), 'JOB', 'default', i,
			'COMPLETED', '2000-01-01' FROM generate_series(1, 30) AS i`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	b.Exec(`CREATE TABLE invoices (task text REFERENCES tasktable.scheduled_tasks (id));
		INSERT INTO invoices SELECT min(id) FROM tasktable.scheduled_tasks GROUP BY split_part(ctid::text, ',', 1)`)
	pages := b.Count(`SELECT count(*) FROM invoices`)
	r := b.retainerOf(90*day, nil)
	size := r.pages.Now()
	batches, refused, at := 0, int64(0), Place{}
	for at.table == 0 { // on a loaded machine a batch may end before it has gone through all pages
		b.InTx(func(tx pgx.Tx) {
			next, done, err := r.step(t.Context(), tx, &noon, at)
			b.OK(err)
			batches, refused, at = batches+1, refused+int64(done.Refused), next
		})
	}
	if pages < 4 || batches > pages/2 || refused != int64(pages) || r.pages.Now() != size {
		t.Errorf("%d batches for %d pages, refused %d, and the next one has %d pages", batches, pages, refused,
			r.pages.Now())
	}
	b.Counts("tasks are left", pages, `SELECT count(*) FROM tasktable.scheduled_tasks`)
}

// An application's open transaction on one row keeps that row alone.
func TestRetentionGoesPastALockedRow(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.old(fmt.Sprintf("old %02d", i), "JOB", 91*day, nil)
	}
	unlock := enginetest.Lock(t, b.Pool, "old 07")
	r := b.retainerOf(90*day, nil)
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(t.Context(), `SET LOCAL lock_timeout = '10ms'`))
		at := Place{}
		for began := true; began || at != (Place{}); began = false {
			var err error
			if at, _, err = r.step(t.Context(), tx, &noon, at); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got := b.left(); got != "old 07; ; old 07" {
		t.Errorf("left are %s", got)
	}
	unlock()
	if b.retain(r, noon); b.left() != "; ; " {
		t.Errorf("unlocked, left are %s", b.left())
	}
}

// Retention looks for the task of a line of history only where the line is old enough to be removed.
func TestRetentionDoesNotLookForTheTaskOfEachLine(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		b.Schedule(store.Task{Payload: job{Name: fmt.Sprint("lives ", i)}, At: noon.Add(-89 * day)})
	}
	holds := b.Take(noon.Add(-89 * day))
	for id := range holds {
		b.End(noon.Add(-89*day), enginetest.Retried(holds[id], 100*day, "not today"))
		b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = $1`, id)
	}
	b.Exec(`ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_task_changes SET changed_at = $1`, noon.Add(-89*day))
	r := b.retainerOf(90*day, map[string]time.Duration{"LOG": 1000 * day})
	looks := func(r *Retention, now time.Time) (n int) {
		t.Helper()
		errBack := errors.New("take it back")
		err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
			const sql = `SELECT coalesce(sum(idx_scan), 0)::int FROM pg_stat_xact_user_tables
				WHERE relname = 'scheduled_tasks'`
			var before int
			if err := tx.QueryRow(t.Context(), sql).Scan(&before); err != nil {
				return err
			}
			for table := 1; table < len(retainTables); table++ {
				if _, _, err := r.step(t.Context(), tx, &now, Place{table: table}); err != nil {
					return err
				}
			}
			if err := tx.QueryRow(t.Context(), sql).Scan(&n); err != nil {
				return err
			}
			n -= before
			return errBack
		})
		if !errors.Is(err, errBack) {
			t.Fatal(err)
		}
		return n
	}
	if n := looks(r, noon); n != 0 {
		t.Errorf("%d looks at the tasks where nothing is old enough", n)
	}
	if n := looks(r, noon.Add(2*day)); n == 0 {
		t.Error("no look at the tasks where lines are old enough: the test does not count them")
	}
	// A short period of one type costs nothing for the lines of other tasks' creations, which are most lines.
	short := b.retainerOf(90*day, map[string]time.Duration{"LOG": day})
	if n := looks(short, noon); n != 30 {
		t.Errorf("with a short period of another type, %d looks for 30 lines of creations and 30 of edits", n)
	}
}
