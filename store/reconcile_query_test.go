package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

const oneWanted = `SELECT 1 AS key, timestamptz '2100-01-01 00:00Z' AS scheduled_at`

func TestReconcileTakesOneStatementHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, query := range []string{
		oneWanted,
		oneWanted + " ; ;\n\t",
		oneWanted + "; -- the end; really",
		oneWanted + " -- no end",
		`SELECT '; -- x' AS id, now() AS scheduled_at WHERE '' <> '; -- x'`,
		"-- first; comment\n" + oneWanted,
		`SELECT 'a;b' AS id, now() AS scheduled_at WHERE 'it''s;' <> '';`,
		`WITH x AS (SELECT 1 AS key) SELECT key, now() AS scheduled_at FROM x ORDER BY 1 LIMIT 5`,
		`SELECT key, at AS scheduled_at FROM (VALUES (1, now())) AS v (key, at)`,
		`SELECT 'tasktable {payload} {query}' AS id, now() AS scheduled_at`,
	} {
		report, err := b.reconcile(store.ReconcileConfig{Query: query})
		if err != nil || report.Missing.Count != 1 {
			b.Errorf("%s: %v, %s", query, err, counts(report))
		}
	}
}

func TestReconcileRefusesBadQueries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `CREATE TABLE public.log (line text);
		CREATE FUNCTION public.write() RETURNS int LANGUAGE sql AS $$ INSERT INTO public.log VALUES ('x')
			RETURNING 1 $$;
		CREATE FUNCTION public.allow() RETURNS text LANGUAGE sql AS $$
			SELECT set_config('transaction_read_only', 'off', true) $$;
		CREATE SEQUENCE public.numbers`)
	for _, test := range []struct{ query, want string }{
		{"", "query must be given"},
		{" ; -- nothing", "query must be given"},
		{oneWanted + "; DELETE FROM public.log", "query is wrong: "},
		{oneWanted + ") AS q; DELETE FROM public.log; SELECT (1", "query is wrong in line 1: "},
		{oneWanted + "; /* the end */", "query must be one SELECT that only reads"},
		{oneWanted + "\x00", "query must be UTF-8 without NUL"},
		{"-- " + strings.Repeat("x", 1<<20), "query must be at most 1 MiB"},
		{"SELECT 1 AS key,\n now() AS scheduled_at\n FROM nowhere", "query is wrong in line 3: "},
		{"SELEC 1", "query is wrong in line 1: "},
		{"SELECT $1::int AS key, now() AS scheduled_at", "query must have no parameters"},
		{"CREATE TABLE public.mine (id int)", "query must be one SELECT, got a statement that yields no rows"},
		{"SHOW work_mem", `got a column "work_mem"`},
		{"SELECT now() AS scheduled_at", "query must have a column id or a column key, got neither"},
		{"SELECT 1 AS id, 2 AS key, now() AS scheduled_at", "query must have a column id or a column key, got both"},
		{"SELECT 1 AS key", "query must have a column scheduled_at"},
		{oneWanted + `, 2 AS colour`, `query must have no columns but id, key, scheduled_at`},
		{oneWanted + `, 2 AS colour`, `got a column "colour"`},
		{oneWanted + `, 2 AS key`, `query must have each column once, got column "key" twice`},
		{
			`SELECT 1 AS key, timestamp '2100-01-01' AS scheduled_at`,
			`query must have the column "scheduled_at" as timestamptz (of a timestamp: ` +
				`scheduled_at AT TIME ZONE 'UTC'), got timestamp`,
		},
		{oneWanted + `, '{}' AS payload`, `query must have the column "payload" as jsonb, got text`},
		{oneWanted + `, 1.5 AS priority`, `query must have the column "priority" as an integer, got numeric`},
		{oneWanted + `, 60 AS expiration`, `query must have the column "expiration" as interval, got int4`},
		{
			`DELETE FROM public.log RETURNING 1 AS key, now() AS scheduled_at`,
			"query must be one SELECT that only reads",
		},
		{`WITH gone AS (DELETE FROM public.log RETURNING 1 AS key)
			SELECT key, now() AS scheduled_at FROM gone`, "query must be one SELECT that only reads"},
		{`SELECT public.write() AS key, now() AS scheduled_at`, "query must only read"},
		{`SELECT nextval('public.numbers') AS key, now() AS scheduled_at`, "query must only read"},
		{`SELECT public.allow() AS key, now() AS scheduled_at`, "read-write mode inside a read-only transaction"},
		{`SELECT 1 AS key, now() AS scheduled_at FROM public.log FOR UPDATE`, "query must only read"},
		{`SELECT 1 / 0 AS key, now() AS scheduled_at`, "query: invalid"},
		{oneWanted + " UNION ALL " + oneWanted, `query must yield each id once, got "task-TEST-1" twice`},
	} {
		for _, apply := range []bool{false, true} {
			tx := b.Begin(pgx.TxOptions{})
			_, err := b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "TEST", Query: test.query, Apply: apply})
			if name := fmt.Sprintf("%.60s (apply %t)", test.query, apply); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				b.Errorf("%s: the error is %v\nwant %s", name, err, test.want)
			} else if !strings.Contains(test.query, "allow") {
				b.wantInvalid(err)
			}
			b.Exec(tx, `INSERT INTO public.log VALUES ('the transaction is usable, and writable')`)
			b.Check(tx.Rollback(b.Ctx))
		}
	}
	if one[int](b, b.Pool, `SELECT count(*) FROM public.log`)+
		one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`) != 0 {
		b.Error("something was written")
	}
}

// A row that Schedule would refuse is named, and nothing of what came before it is left.
func TestReconcileRefusesBadRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, test := range []struct{ row, want string }{
		{`NULL AS id`, "id or key must be given in each row"},
		{`'' AS id`, "id or key must be given in each row"},
		{`'' AS key`, "id or key must be given in each row"},
		{
			`'z' || chr(10) AS id`,
			`row "z\n": invalid: id must be at most 512 bytes of UTF-8 without control characters`,
		},
		{`'z' AS id, NULL::timestamptz AS scheduled_at`, `row "z": invalid: scheduled_at must be given, got null`},
		{
			`'z' AS id, 'infinity'::timestamptz AS scheduled_at`,
			`row "z": invalid: scheduled_at must be finite, in the years 1 to 9999, got infinity`,
		},
		{
			`'z' AS id, '10000-01-01 00:00Z'::timestamptz AS scheduled_at`,
			`row "z": invalid: scheduled_at must be in the years 1 to 9999`,
		},
		{
			`'z' AS id, '0044-03-15 00:00Z BC'::timestamptz AS scheduled_at`,
			`row "z": invalid: scheduled_at must be in the years 1 to 9999`,
		},
		{`'z' AS id, jsonb '[]' AS payload`, `row "z": invalid: payload must encode as a JSON object`},
		{`'z' AS id, jsonb 'null' AS payload`, `row "z": invalid: payload must encode as a JSON object`},
		{
			`'z' AS id, jsonb '{"type": "OTHER"}' AS payload`,
			`row "z": invalid: payload must have no field type other than "TEST", got "OTHER"`,
		},
		{
			`'z' AS id, jsonb_build_object('x', repeat('x', 300000)) AS payload`,
			`row "z": invalid: payload must be at most 256 KiB of JSON text`,
		},
		{`'z' AS id, repeat('x', 600) AS entity`, `row "z": invalid: entity must be at most 512 bytes`},
		{`'z' AS id, chr(7) AS tenant_id`, `row "z": invalid: tenant_id must be`},
		{`'z' AS id, 'My Queue' AS queue`, `row "z": invalid: queue must be 1 to 64 of a-z`},
		{`'z' AS id, 101 AS priority`, `row "z": invalid: priority must be between -100 and 100, got 101`},
		{`'z' AS id, 9223372036854775807 AS max_attempts`, `row "z": invalid: max_attempts must be between 1 and 1000`},
		{
			`'z' AS id, interval '1 month' AS expiration`,
			`row "z": invalid: expiration must be in days or less: '30 days', not '1 month'`,
		},
		{`'z' AS id, interval '-1 s' AS expiration`, `row "z": invalid: expiration must be between 1µs and 10 years`},
		{
			`'z' AS id, interval '99999999 hours' AS expiration`,
			`row "z": invalid: expiration must be between 1µs and 10 years`,
		},
		{
			`'z' AS id, interval '1 month' AS expected_execution_time`,
			`row "z": invalid: expected_execution_time must be in days or less`,
		},
		{
			`'z' AS id, interval '169 hours' AS expected_execution_time`,
			`row "z": invalid: expected_execution_time must be between 1µs and 7 days`,
		},
	} {
		row := test.row
		if !strings.Contains(row, "scheduled_at") {
			row += ", now() AS scheduled_at"
		}
		good := 3
		if i%6 == 5 {
			good = 2100 // in other batches before it, too
		}
		query := `SELECT * FROM (SELECT ` + row + `) AS bad`
		if !strings.Contains(row, "AS key") {
			query += ` UNION ALL SELECT 'good ' || n` + goodColumns(row) +
				fmt.Sprintf(` FROM generate_series(1, %d) AS n`, good)
		}
		_, err := b.reconcile(store.ReconcileConfig{Query: query, Apply: true})
		b.wantInvalid(err, test.want)
	}
	if n := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); n != 0 {
		b.Errorf("%d tasks were left", n)
	}
}

// goodColumns are the columns behind the id of a good row that goes with a bad one.
func goodColumns(row string) string {
	var out string
	for _, part := range strings.Split(row, " AS ")[2:] {
		switch name, _, _ := strings.Cut(part, ","); name {
		case "scheduled_at":
			out += ", now()"
		case "priority":
			out += ", 0"
		case "max_attempts":
			out += ", 5"
		default:
			out += ", NULL"
		}
	}
	return out
}

func TestReconcileRefusesABadConfig(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{})
	_, err := b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "?", Query: oneWanted})
	b.wantInvalid(err, "type must be")
	_, err = store.New(store.Config{Schema: "?"}).Reconcile(b.Ctx, tx, store.ReconcileConfig{
		Type: "TEST", Query: oneWanted,
	})
	b.wantInvalid(err, "schema")
	_, err = b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "TEST", Query: oneWanted, EntityColumn: "event"})
	b.wantInvalid(err, `query must have the column "event", as the entity`)
}

func TestReconcileInAReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{AccessMode: pgx.ReadOnly})
	report, err := b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "TEST", Query: oneWanted})
	b.Check(err)
	b.wantCounts(report, "agree 0, finished 0, missing 1, cancelled 0, ended 0, time 0, content 0, orphaned 0")
}

func TestReconcileHasAStatementTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SET LOCAL statement_timeout = '77s'`)
	slow := `SELECT 1 AS key, now() AS scheduled_at FROM pg_sleep(60)`
	_, err := b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{
		Type: "TEST", Query: slow, Timeout: 20 * time.Millisecond,
	})
	if err == nil || !strings.Contains(err.Error(), "statement timeout") {
		b.Errorf("the error is %v", err)
	}
	b.succeeds(b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "TEST", Query: oneWanted, Timeout: time.Minute}))
	if left := one[string](b, tx, `SHOW statement_timeout`); left != "77s" {
		b.Errorf("afterwards statement_timeout is %s", left)
	}
}
