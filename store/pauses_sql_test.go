package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

func TestPausesInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, call := range []struct{ sql, outcome, line string }{
		{`SELECT tasktable.pause_scope('all')`, "paused", "all  -  " + b.Role() + " -"},
		{`SELECT tasktable.pause_scope('all')`, "unchanged", "all  -  " + b.Role() + " -"},
		{`SELECT tasktable.pause_scope('all', '', '2100-01-01Z', 'why', 'ann')`, "paused", "all  2100 why ann -"},
		{`SELECT tasktable.resume_scope('all', by => 'bob')`, "queued", ""},
		{`SELECT tasktable.resume_scope('all')`, "unchanged", ""},
		{`SELECT tasktable.resume_scope('queue', 'nobody-paused')`, "unchanged", ""},
		{
			`SELECT tasktable.pause_scope('queue', 'mail', until => '2100-01-01Z')`, "paused",
			"queue mail 2100  " + b.Role() + " -",
		},
		{
			`SELECT tasktable.pause_scope('type', 'TEST', reason => 'why')`, "paused",
			"type TEST - why " + b.Role() + " -",
		},
	} {
		if got := one[string](b, b.Pool, call.sql); got != call.outcome {
			t.Errorf("%s: %s", call.sql, got)
		}
		lines := one[*string](b, b.Pool, `SELECT (SELECT concat(scope, ' ', name, ' ',
			coalesce(extract(year FROM ends_at AT TIME ZONE 'UTC')::text, '-'), ' ', reason, ' ', paused_by, ' ',
			coalesce(resumed_by, '-')) FROM tasktable.pauses WHERE ends_at IS NULL OR ends_at > clock_timestamp()
			ORDER BY number DESC LIMIT 1)`)
		if got := fmt.Sprint(orDefault(text(lines), any(""))); got != call.line {
			t.Errorf("%s: %q instead of %q", call.sql, got, call.line)
		}
	}
	same(b, "resumed by", one[string](b, b.Pool, `SELECT resumed_by FROM tasktable.pauses WHERE scope = 'all'`), "bob")
	lines := b.pauseLines()
	for sql, message := range map[string]string{
		`SELECT tasktable.pause_scope('everything')`: "scope must be all, queue or type",
		`SELECT tasktable.pause_scope('ALL')`:        "scope must be all, queue or type",
		`SELECT tasktable.pause_scope(NULL)`:         `null value in column "scope"`,
		`SELECT tasktable.pause_scope('all', 'mail')`: "name must be a queue or a type, " +
			"and empty for all",
		`SELECT tasktable.pause_scope('queue')`:                    "queue must be 1 to 64 of a-z",
		`SELECT tasktable.pause_scope('queue', 'Mail')`:            "queue must be 1 to 64 of a-z",
		`SELECT tasktable.pause_scope('queue', NULL)`:              `null value in column "name"`,
		`SELECT tasktable.pause_scope('type', 'A')`:                "type must be 2 to 127",
		`SELECT tasktable.pause_scope('type', 'A B')`:              "type must be 2 to 127",
		`SELECT tasktable.pause_scope('all', until => 'infinity')`: "ends_at, paused_until must be finite",
		`SELECT tasktable.resume_scope('everything')`: "scope must be all, queue or type, " +
			"not 'everything'",
		`SELECT tasktable.resume_scope(NULL)`:                             "scope must be all, queue or type, not NULL",
		`INSERT INTO tasktable.pauses (scope, name) VALUES ('queue', '')`: "queue must be 1 to 64 of a-z",
		`INSERT INTO tasktable.pauses (scope, name) VALUES ('all', 'x')`:  "name must be a queue or a type",
		`INSERT INTO tasktable.pauses (scope, ends_at)
			VALUES ('all', '-infinity')`: "ends_at, paused_until must be finite",
		`UPDATE tasktable.pauses SET scope = 'entity', name = 'event:1'
			WHERE scope = 'all'`: "scope must be all, queue or type",
	} {
		b.refused(sql, message)
	}
	same(b, "lines", b.pauseLines(), lines)
}

func TestBadPausesAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	db, year10000 := noDB(b), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	scope := func(scope store.Scope, until time.Time, reason string) func() (any, error) {
		return func() (any, error) { return b.Tasks.PauseScope(b.Ctx, db, scope, until, reason) }
	}
	resume := func(scope store.Scope) func() (any, error) {
		return func() (any, error) { return b.Tasks.ResumeScope(b.Ctx, db, scope) }
	}
	task := func(id string, until time.Time) func() (any, error) {
		return func() (any, error) { return b.Tasks.PauseUntil(b.Ctx, db, id, until) }
	}
	for rule, calls := range map[string][]func() (any, error){
		"scope must be": {scope(store.Scope{}, far(0), ""), resume(store.Scope{})},
		"queue must be 1 to 64": {
			scope(store.Queue("Mail"), far(0), ""), resume(store.Queue("")), resume(store.Queue("a\x00")),
		},
		"type must be 2 to 127":      {scope(store.Type("A"), far(0), ""), resume(store.Type("A B"))},
		"until must be in the years": {scope(store.Everything(), year10000, ""), task("one", year10000)},
		"until must be given":        {task("one", time.Time{})},
		"id must be":                 {task("", far(0)), task("a\x00", far(0))},
		"reason must be UTF-8 without NUL": {
			scope(store.Everything(), far(0), "a\x00b"), scope(store.Everything(), far(0), "\xff"),
		},
	} {
		for _, call := range calls {
			_, err := call()
			b.wantInvalid(err, rule)
		}
	}
}

// Two that pause the same at once leave one line, and the second is told so.
func TestPausesOfOneScopeAtOnce(t *testing.T) {
	t.Parallel()
	b := crowd(t)
	for _, scope := range []store.Scope{store.Everything(), store.Queue("mail"), store.Type("TEST")} {
		got := map[store.Outcome]int{}
		for _, outcome := range race(b, func(int) (store.Outcome, error) {
			return b.Tasks.PauseScope(b.Ctx, b.Pool, scope, time.Time{}, "")
		}) {
			got[outcome]++
		}
		same(b, scope.String(), got, map[store.Outcome]int{store.Paused: 1, store.Unchanged: racers - 1})
	}
	if lines := b.pauseLines(); len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
	for _, scope := range []store.Scope{store.Everything(), store.Queue("mail"), store.Type("TEST")} {
		got := map[store.Outcome]int{}
		for _, outcome := range race(b, func(int) (store.Outcome, error) {
			return b.Tasks.ResumeScope(b.Ctx, b.Pool, scope)
		}) {
			got[outcome]++
		}
		same(b, scope.String(), got, map[store.Outcome]int{store.Queued: 1, store.Unchanged: racers - 1})
	}

	// One that is not committed yet decides: nobody overtakes it.
	tx := b.Begin(pgx.TxOptions{})
	b.succeeds(b.Tasks.PauseScope(b.Ctx, tx, store.Queue("mail"), far(0), "first"))
	second := start(b, func(conn *pgxpool.Conn) (store.Outcome, error) {
		return b.Tasks.PauseScope(b.Ctx, conn, store.Queue("mail"), far(0), "first")
	}).blocked()
	// Another waits for nobody.
	if got, err := b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("other"), far(0), "first"); err != nil ||
		got != store.Paused {
		t.Errorf("another queue: %s, %v", got, err)
	}
	b.Check(tx.Rollback(b.Ctx))
	if got, err := second.result(); err != nil || got != store.Paused {
		t.Errorf("after a rollback: %s, %v", got, err)
	}
}
