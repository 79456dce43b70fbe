package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tasktable/tasktable/store/internal/check"
)

// DB is a connection or a transaction on which the methods of a Store run. A pgx Tx, Conn or Pool is a DB, sqlc's
// DBTX for pgx, and everything else that has pgx's Query. In a transaction, a method takes part in the transaction.
// Otherwise it commits by itself.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SQLQueryer is implemented by *sql.Tx, *sql.Conn, *sql.DB, sqlc's DBTX and GORM's ConnPool.
type SQLQueryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL returns a DB that runs on database/sql, with any Postgres driver:
//
//	tasks.Schedule(ctx, store.SQL(sqlTx), task)
//	tasks.Schedule(ctx, store.SQL(gormTx.Statement.ConnPool), task)
func SQL(queryer SQLQueryer) DB { return sqlDB{queryer} }

type sqlDB struct{ queryer SQLQueryer }

func (db sqlDB) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	if err := check.DB(db.queryer); err != nil {
		return nil, err
	}
	rows, err := db.queryer.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		_ = rows.Close()
		return nil, fmt.Errorf("read column names: %w", err)
	}
	return &sqlRows{Rows: rows, columns: columns}, nil
}

// sqlRows lets pgx's CollectRows and RowToStructByName read the rows of database/sql, so that the package needs only
// one implementation of each read.
type sqlRows struct {
	*sql.Rows
	columns []string
}

func (r *sqlRows) Close()                        { _ = r.Rows.Close() }
func (r *sqlRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }
func (r *sqlRows) RawValues() [][]byte           { return nil }
func (r *sqlRows) Conn() *pgx.Conn               { return nil }
func (r *sqlRows) TypeMap() *pgtype.Map          { return nil }

func (r *sqlRows) FieldDescriptions() []pgconn.FieldDescription {
	fields := make([]pgconn.FieldDescription, len(r.columns))
	for i, name := range r.columns {
		fields[i].Name = name
	}
	return fields
}

func (r *sqlRows) Scan(targets ...any) error {
	if len(targets) == 1 {
		if scanner, ok := targets[0].(pgx.RowScanner); ok {
			return scanner.ScanRow(r)
		}
	}
	for i, target := range targets {
		if raw, ok := target.(*json.RawMessage); ok {
			targets[i] = (*[]byte)(raw) // database/sql scans into *[]byte, but not into types derived from it
		}
	}
	return r.Rows.Scan(targets...)
}

func (r *sqlRows) Values() ([]any, error) {
	values := make([]any, len(r.columns))
	targets := make([]any, len(values))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := r.Rows.Scan(targets...); err != nil {
		return nil, err
	}
	return values, nil
}
