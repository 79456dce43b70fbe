package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// Postgres prepares no transaction that has notified. So a transaction of a two-phase commit schedules due tasks
// quietly. The second phase makes the task visible.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if one[string](b, b.Pool, `SELECT current_setting('max_prepared_transactions')`) == "0" {
		t.Skip("the server allows no prepared transactions")
	}
	b.Make("held", "EXECUTING")
	const refused = "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"
	ask := func(sql string) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { _, err := tx.Exec(b.Ctx, sql); return err }
	}
	through := func(config store.Config) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := store.New(config).Schedule(b.Ctx, tx, store.Task{ID: "go", Payload: payload(1)})
			return err
		}
	}
	for i, phase := range []struct {
		name, id, refused string
		do                func(pgx.Tx) error
	}{
		{"due now", "due", refused, ask(`SELECT tasktable.schedule('{"type":"TEST"}', id => 'due')`)},
		{"due now, quietly", "due", "",
			ask(`SELECT tasktable.schedule('{"type":"TEST"}', id => 'due', wake => false)`)},
		{"due later", "later", "", ask(`SELECT tasktable.schedule('{"type":"TEST"}', now() + '1 hour', 'later')`)},
		{"many, due now", "many", refused,
			ask(`SELECT tasktable.schedule_many('[{"id":"many","payload":{"type":"TEST"}}]')`)},
		{"many, due now, quietly", "many", "",
			ask(`SELECT tasktable.schedule_many('[{"id":"many","payload":{"type":"TEST"}}]', wake => false)`)},
		{"in Go", "go", refused, through(store.Config{})},
		{"in Go with NoNotify", "go", "", through(store.Config{NoNotify: true})},
		{"of a running task, quietly", "held", refused,
			ask(`SELECT tasktable.schedule('{"type":"TEST"}', now(), 'held', wake => false)`)},
	} {
		before := pretty(b.Get(phase.id))
		name := fmt.Sprintf("'tasktable %d %d'", time.Now().UnixNano(), i) // all databases of a server share the names
		b.Cleanup(func() { _, _ = b.Pool.Exec(context.Background(), "ROLLBACK PREPARED "+name) })
		tx := b.Begin(pgx.TxOptions{})
		if err := phase.do(tx); err != nil {
			t.Fatalf("%s: %v", phase.name, err)
		}
		_, err := tx.Exec(b.Ctx, "PREPARE TRANSACTION "+name)
		if (err == nil) != (phase.refused == "") || err != nil && !strings.Contains(err.Error(), phase.refused) {
			t.Fatalf("%s: PREPARE TRANSACTION says %v", phase.name, err)
		}
		b.Check(tx.Rollback(b.Ctx)) // gives the connection back; a prepared transaction is no longer the connection's
		same(b, phase.name+", before the second phase", pretty(b.Get(phase.id)), before)
		if err != nil {
			continue
		}
		b.Exec(b.Pool, "COMMIT PREPARED "+name)
		if row := b.Get(phase.id); row == nil || row.Status != store.StatusQueued {
			t.Errorf("%s: after the second phase it is %s", phase.name, pretty(row))
		}
	}
}

// Postgres refuses a parameter of the type json, and its error names the type. psycopg's Json sends such a parameter.
// A cast helps. A second function, for json, would serve it, but would make each call with a plain string ambiguous.
func TestPayloadOfTheTypeJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn, err := b.Pool.Acquire(b.Ctx)
	b.Check(err)
	defer conn.Release()
	for _, call := range []struct{ call, refused string }{
		{`tasktable.schedule('{"type":"TEST"}')`, ""},
		{`tasktable.schedule('{"type":"TEST"}'::json)`, "function tasktable.schedule(json) does not exist"},
		{`tasktable.schedule('{"type":"TEST"}'::json::jsonb)`, ""},
		{`tasktable.schedule(payload => '{"type":"TEST"}'::json, id => 'x')`,
			"function tasktable.schedule(payload => json, id => unknown) does not exist"},
		{`tasktable.schedule_many('[]'::json)`, "function tasktable.schedule_many(json) does not exist"},
		{`tasktable.schedule_many('[]'::json::jsonb)`, ""},
	} {
		_, err := conn.Exec(b.Ctx, `SELECT `+call.call, pgx.QueryExecModeSimpleProtocol)
		if (err == nil) != (call.refused == "") || err != nil && !strings.Contains(err.Error(), call.refused) {
			t.Errorf("%s: %v", call.call, err)
		}
	}
	for _, kind := range []string{"json", "jsonb", "unknown"} {
		for cast, fits := range map[string]bool{"": kind != "json", "::jsonb": true} {
			sql := fmt.Sprintf(`PREPARE as_%s_%d (%[1]s) AS SELECT tasktable.schedule($1%[3]s)`, kind, len(cast), cast)
			_, err := conn.Exec(b.Ctx, sql)
			if (err == nil) != fits {
				t.Errorf("a parameter of the type %s, cast %q: %v", kind, cast, err)
			}
		}
	}
	// In an INSERT the cast is Postgres's own.
	b.Exec(conn, `INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		VALUES ('inserted', '{"type":"TEST"}'::json, now())`)
}
