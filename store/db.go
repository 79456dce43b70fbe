package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// DB is what a verb runs on: a pgx Tx, Conn, Pool, sqlc's pgx DBTX, or anything else with pgx's Query. In a
// transaction the verb is part of it; otherwise it commits by itself.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SQLQueryer is satisfied by *sql.Tx, *sql.Conn, *sql.DB, sqlc's DBTX, and GORM's ConnPool.
type SQLQueryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL makes a DB of anything with database/sql's QueryContext, whatever Postgres driver is behind it:
//
//	tasks.Schedule(ctx, store.SQL(sqlTx), task)
//	tasks.Schedule(ctx, store.SQL(gormTx.Statement.ConnPool), task)
func SQL(queryer SQLQueryer) DB { return sqlDB{queryer} }

type sqlDB struct{ queryer SQLQueryer }

func (db sqlDB) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
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

// sqlRows lets pgx's CollectRows and RowToStructByName read database/sql's rows, so that each read is written once.
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
			targets[i] = (*[]byte)(raw) // database/sql knows *[]byte, but not types made of it
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
