package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// FuzzID: Go accepts an id exactly if the table does.
func FuzzID(f *testing.F) {
	for _, id := range []string{
		"a", "task-SEND_EVENT_REMINDER-42", "event:1@2030-01-01T00:00:00Z", " ", "é", "😀", strings.Repeat("x", 512),
		strings.Repeat("x", 513), strings.Repeat("€", 171), "a\nb", "\x00", "\x7f", "\u0080", "\u009f", "\u00a0",
		"\u2028", "\ufeff", "\xff", "\xed\xa0\x80",
	} {
		f.Add(id)
	}
	pool := storetest.Pool(f)
	f.Fuzz(func(t *testing.T, id string) {
		if id == "" {
			return // not an id, but the wish for one
		}
		var accepted string
		goErr := store.Task{ID: id, Payload: plain{}}.Check()
		dbErr := pool.QueryRow(context.Background(), `SELECT $1::text::tasktable.task_id::text`, id).Scan(&accepted)
		if (goErr == nil) != (dbErr == nil) || goErr != nil && !errors.Is(goErr, store.ErrInvalid) ||
			goErr == nil && accepted != id {
			t.Errorf("%q: Go %v, Postgres %v, %q", id, goErr, dbErr, accepted)
		}
	})
}

// FuzzPayload: what Go accepts the database stores, and as it was given.
func FuzzPayload(f *testing.F) {
	for _, body := range []string{
		`{"type":"TEST"}`, `{"type":"TEST","n":1.50e1}`, `{"type":"TEST","n":-0e131072}`,
		`{"type":"TEST","n":1e-16383}`, `{"type":"TEST","s":"\ud83d\ude00"}`, `{"type":"TEST","s":"\ud83d"}`,
		`{"type":"TEST","s":"\\u0000"}`, `{"type":"TEST","s":"\u0000"}`, `{"type":"AB","type":"CD"}`, `{"Type":"AB"}`,
		` { "type" : "TEST" , "a" : [ { } , [ ] , null , true , false ] } `, `[]`, `null`, ``, `{"type":"TEST"`,
		`{"type":1}`, "{\"type\":\"TEST\",\"s\":\"\xff\"}",
		`{"type":"TEST","deep":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`,
	} {
		f.Add([]byte(body))
	}
	pool, tasks := storetest.Pool(f), store.New(store.Config{})
	f.Fuzz(func(t *testing.T, body []byte) {
		ctx := context.Background()
		task := store.Task{ID: "one", Payload: store.JSON(body), At: far(0)}
		if err := task.Check(); err != nil {
			if !errors.Is(err, store.ErrInvalid) || len(err.Error()) > 1000 {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tasks.Schedule(ctx, tx, task); err != nil {
			t.Fatalf("%q: accepted by Go, but %v", body, err)
		}
		var same bool
		const compare = `SELECT payload = $1::text::jsonb FROM tasktable.scheduled_tasks WHERE id = 'one'`
		if err := tx.QueryRow(ctx, compare, string(body)).Scan(&same); err != nil || !same {
			t.Errorf("%q: stored as something else: %v", body, err)
		}
	})
}
