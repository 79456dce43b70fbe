package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// MaxReconcileQueryBytes is the maximum length of ReconcileConfig.Query.
const MaxReconcileQueryBytes = 1 << 20

// reconcileColumn is a column that the query may have.
type reconcileColumn struct {
	name     string
	kind     string   // the name of the right type, for the error about another one
	types    []uint32 // nil: any type that Postgres can convert to text
	defaults bool     // types may have a default for it
	// read is the SQL that reads the column from the query, whose alias is q. An empty value asks for the default, as
	// in a Task.
	read string
}

var (
	wholeNumbers = []uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID}

	reconcileColumns = []reconcileColumn{
		{name: "id", read: `nullif(q.id::text, '')`},
		{name: "key", read: `'task-' || $1::text || '-' || nullif(q.key::text, '')`},
		// Postgres would take a timestamp without time zone for a time in the session's zone, whichever that is.
		{name: "scheduled_at", kind: "timestamptz (of a timestamp: scheduled_at AT TIME ZONE 'UTC')",
			types: []uint32{pgtype.TimestamptzOID}, read: `q.scheduled_at::timestamptz`},
		{name: "payload", kind: "jsonb", types: []uint32{pgtype.JSONBOID, pgtype.JSONOID}, read: `CASE
			WHEN q.payload IS NULL THEN jsonb_build_object('type', $1::text)
			WHEN jsonb_typeof(q.payload::jsonb) = 'object' THEN jsonb_build_object('type', $1::text) || q.payload::jsonb
			ELSE q.payload::jsonb END`},
		{name: "entity", read: `nullif(q.entity::text, '')`},
		{name: "tenant_id", read: `nullif(q.tenant_id::text, '')`},
		{name: "group_key", defaults: true, read: `nullif(q.group_key::text, '')`},
		{name: "queue", defaults: true, read: `nullif(q.queue::text, '')`},
		{name: "priority", defaults: true, kind: "an integer", types: wholeNumbers, read: `q.priority`},
		{name: "expiration", defaults: true, kind: "interval", types: []uint32{pgtype.IntervalOID},
			read: `nullif(q.expiration, interval '0')`},
		{name: "expected_execution_time", defaults: true, kind: "interval", types: []uint32{pgtype.IntervalOID},
			read: `nullif(q.expected_execution_time, interval '0')`},
		{name: "max_attempts", defaults: true, kind: "an integer", types: wholeNumbers,
			read: `nullif(q.max_attempts, 0)`},
	}
)

// describeQuery asks Postgres for the columns of the query. Postgres also refuses a text of more than one statement.
func describeQuery(ctx context.Context, tx pgx.Tx, query string) ([]pgconn.FieldDescription, error) {
	described, err := tx.Prepare(ctx, "", query)
	if err != nil {
		return nil, queryError(err, query)
	}
	if len(described.ParamOIDs) > 0 {
		given := fmt.Sprintf("%d ($1…)", len(described.ParamOIDs))
		return nil, check.Invalid("query", "must have no parameters", given)
	}
	if len(described.Fields) == 0 {
		return nil, check.Invalid("query", "must be one SELECT", "a statement that yields no rows")
	}
	return described.Fields, nil
}

// queryColumns checks the columns of the query, and returns their names. The column of the entity may have another
// name.
func queryColumns(fields []pgconn.FieldDescription, entityColumn string) (map[string]string, error) {
	var names []string
	for _, column := range reconcileColumns {
		names = append(names, column.name)
	}
	if entityColumn != "" {
		names[slices.Index(names, "entity")] = entityColumn
	}
	has := map[string]string{}
	for _, field := range fields {
		place := slices.Index(names, field.Name)
		if place < 0 {
			return nil, check.Invalid("query", "must have no columns but "+strings.Join(names, ", "),
				fmt.Sprintf("a column %q", field.Name))
		}
		column := reconcileColumns[place]
		if _, twice := has[column.name]; twice {
			return nil, check.Invalid("query", "must have each column once", fmt.Sprintf("column %q twice", field.Name))
		}
		if column.types != nil && !slices.Contains(column.types, field.DataTypeOID) {
			return nil, check.Invalid("query", fmt.Sprintf("must have the column %q as %s", field.Name, column.kind),
				typeName(field.DataTypeOID))
		}
		has[column.name] = field.Name
	}
	_, id := has["id"]
	_, key := has["key"]
	if id == key {
		return nil, check.Invalid("query", "must have a column id or a column key",
			map[bool]string{true: "both", false: "neither"}[id])
	}
	if _, ok := has["scheduled_at"]; !ok {
		return nil, check.Invalid("query", "must have a column scheduled_at", "none")
	}
	if _, ok := has["entity"]; entityColumn != "" && !ok {
		return nil, check.Invalid("query", fmt.Sprintf("must have the column %q, as the entity", entityColumn), "none")
	}
	return has, nil
}

func typeName(oid uint32) string {
	if known, ok := pgtype.NewMap().TypeForOID(oid); ok {
		return known.Name
	}
	return fmt.Sprintf("a type of number %d", oid)
}

// queryError marks the errors of Postgres about the query as ErrInvalid. text is the query if the statement is
// nothing but the query, because only then the position in the error is one of the query's lines.
func queryError(err error, text string) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	where := ""
	if runes, at := []rune(text), int(refused.Position)-1; at >= 0 && at <= len(runes) {
		where = fmt.Sprintf(" in line %d", 1+strings.Count(string(runes[:at]), "\n"))
	}
	switch code := refused.Code; {
	case code == "25006": // read_only_sql_transaction
		return fmt.Errorf("%w: query must only read: %w", ErrInvalid, err)
	case text == "" && (code == "42601" || code == "0A000"): // syntax_error, feature_not_supported
		return fmt.Errorf("%w: query must be one SELECT that only reads: %w", ErrInvalid, err)
	case text != "" && code != "42501" && strings.HasPrefix(code, "42"): // insufficient_privilege
		return fmt.Errorf("%w: query is wrong%s: %w", ErrInvalid, where, err)
	}
	return query.Annotate(err, "query")
}

// queryEnd matches the semicolons and the comments at the end of a query. What has no quotes is not inside of a text.
var queryEnd = regexp.MustCompile(`(?:[\s;]|--[^'"$\n]*(?:\n|$))+$`)

// checkQuery returns the query without its end, because compareSQL puts the query into parentheses. describeQuery
// refuses a text of more than one statement.
func checkQuery(query string) (string, error) {
	if len(query) > MaxReconcileQueryBytes {
		return "", check.Invalid("query", "must be at most 1 MiB", fmt.Sprintf("%d bytes", len(query)))
	}
	if !utf8.ValidString(query) || strings.ContainsRune(query, 0) {
		return "", check.Invalid("query", "must be UTF-8 without NUL", "other bytes")
	}
	query = queryEnd.ReplaceAllString(query, "")
	if query == "" {
		return "", check.Invalid("query", "must be given", "an empty one")
	}
	return query, nil
}
