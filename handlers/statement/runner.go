package statement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/statement/contract"
)

// Runner runs tasks of type RUN_SQL. It is safe for concurrent use.
type Runner struct{ statements map[string]*known }

// Variant makes a Runner and returns its Run as an argument of handlers.NewRegistry. It returns the errors of New. The
// handler also has the type RUN_SQL:NAME for each statement, so that the leader knows which nodes have the statement.
func Variant(config Config, options ...handlers.Option) (handlers.Part, error) {
	runner, err := New(config)
	if err != nil {
		return nil, err
	}
	var types []string
	for _, name := range runner.names() {
		types = append(types, contract.Type+":"+name)
	}
	return handlers.HandleTx(runner.Run, append(options, handlers.Alias(types...))...), nil
}

func (r *Runner) names() []string { return slices.Sorted(maps.Keys(r.statements)) }

// Run runs one statement in tx. The documentation of the package says which errors are permanent.
func (r *Runner) Run(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.RunSQL]) error {
	if err := t.Payload.Check(); err != nil {
		return handlers.Permanent(err)
	}
	statement := r.statements[t.Payload.Statement]
	if statement == nil {
		has := "; it has " + strings.Join(r.names(), ", ")
		if t.TenantID != "" { // a tenant must not learn the other names, which the node logs when it starts
			has = ""
		}
		return handlers.Permanent(fmt.Errorf("this node has no statement %s%s", t.Payload.Statement, has))
	}
	if err := statement.run(ctx, tx, t); err != nil {
		return fmt.Errorf("statement %s: %w", statement.name, err)
	}
	return nil
}

// afterTimeout is how much longer than the statement the task's lease is, for all around the statement.
const afterTimeout = 10 * time.Second

func (k *known) run(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.RunSQL]) error {
	values, err := k.values(t.Payload.Params)
	if err != nil {
		return handlers.Permanent(err)
	}
	// Without this, the task's ExpectedExecutionTime would end a statement that may take longer.
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) < k.Timeout+afterTimeout {
		if err := t.Extend(ctx, k.Timeout+afterTimeout); err != nil {
			return fmt.Errorf("extend the task's lease: %w", err)
		}
	}
	result, err := k.within(ctx, tx, values)
	if err != nil {
		return classified(ctx, err)
	}
	t.Result(result)
	t.Note("%s: %d rows", k.name, result.Rows)
	return nil
}

// values are the parameters in the order of their numbers.
func (k *known) values(given map[string]any) ([][]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, declared := k.Params[name]; !declared {
			return nil, fmt.Errorf("payload field params must not have %s; statement %s has the parameters %s",
				strconv.Quote(name), k.name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(k.Params)), ", "), "none"))
		}
	}
	var values [][]byte
	for _, p := range k.params {
		value, there := given[p.name].(json.RawMessage)
		if !there {
			return nil, fmt.Errorf("payload field params.%s is missing; it must be %s", p.name, p.kind.rule)
		}
		encoded, err := p.encode(value)
		if err != nil {
			return nil, fmt.Errorf("payload field params.%s %w", p.name, err)
		}
		values = append(values, encoded)
	}
	return values, nil
}

const beforeSQL = `SELECT current_setting('role') AS role, current_setting('statement_timeout') AS timeout`

const settingsSQL = `
SELECT set_config('statement_timeout', @timeout::text, true), set_config('role', @role::text, true)`

const readOnlySQL = `SELECT set_config('transaction_read_only', 'on', true)`

// within runs the statement with its role, its timeout and its right to write, and restores these, because the task is
// settled in the same transaction.
func (k *known) within(ctx context.Context, tx pgx.Tx, values [][]byte) (contract.Result, error) {
	var before struct{ Role, Timeout string }
	if err := tx.QueryRow(ctx, beforeSQL).Scan(&before.Role, &before.Timeout); err != nil {
		return contract.Result{}, fmt.Errorf("read the transaction's settings: %w", err)
	}
	inner, err := tx.Begin(ctx) // a savepoint, because only its end lifts a transaction's being read-only
	if err != nil {
		return contract.Result{}, fmt.Errorf("make a savepoint: %w", err)
	}
	if k.ReadOnly {
		if _, err := inner.Exec(ctx, readOnlySQL); err != nil {
			return contract.Result{}, fmt.Errorf("make the transaction read-only: %w", err)
		}
	}
	own := pgx.NamedArgs{
		"role": cmp.Or(k.Role, before.Role), "timeout": strconv.FormatInt(k.Timeout.Milliseconds(), 10) + "ms",
	}
	if _, err := inner.Exec(ctx, settingsSQL, own); err != nil {
		return contract.Result{}, fmt.Errorf("take the role %s: %w", k.Role, err)
	}
	result, err := k.exec(ctx, inner.Conn().PgConn(), values)
	if err != nil {
		return contract.Result{}, err
	}
	if err := inner.Commit(ctx); err != nil {
		return contract.Result{}, fmt.Errorf("release the savepoint: %w", err)
	}
	after := pgx.NamedArgs{"role": before.Role, "timeout": before.Timeout}
	if _, err := tx.Exec(ctx, settingsSQL, after); err != nil {
		return contract.Result{}, fmt.Errorf("restore the transaction's settings: %w", err)
	}
	return result, nil
}

// exec runs the statement with the declared types of its parameters. Otherwise Postgres would guess them, and take the
// @age of "now() - @age" for a time.
func (k *known) exec(ctx context.Context, conn *pgconn.PgConn, values [][]byte) (contract.Result, error) {
	var types []uint32
	for _, p := range k.params {
		types = append(types, p.kind.oid)
	}
	var result contract.Result
	size := 0
	rows := conn.ExecParams(ctx, k.sql, values, types, nil, nil)
	for rows.NextRow() {
		for _, value := range rows.Values() {
			size += len(value)
		}
		if k.Rows > 0 && (len(result.First) == k.Rows || size > maxResult) {
			result.Truncated = true
		}
		if k.Rows > 0 && !result.Truncated {
			result.First = append(result.First, rowOf(rows.FieldDescriptions(), rows.Values()))
		}
	}
	tag, err := rows.Close()
	result.Rows = tag.RowsAffected()
	return result, err
}

// permanentClasses are the classes of SQLSTATE that another attempt would meet again: a value that does not fit, a
// statement that is wrong or not allowed here, and a missing right.
var permanentClasses = []string{"0A", "22", "25", "2D", "3D", "3F", "42"}

// classified makes an error permanent if no retry would mend it. It drops the detail of Postgres's error, which has
// rows.
func classified(ctx context.Context, err error) error {
	var failed *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &failed) && slices.Contains(permanentClasses, failed.Code[:min(2, len(failed.Code))]):
		return handlers.Permanent(err)
	}
	return err
}
