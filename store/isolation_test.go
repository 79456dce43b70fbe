package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// A transaction whose snapshot is older than another's edit cannot know what its verb would come to. It is told so,
// by the error that such transactions have to expect anyway; "unchanged" would be a lost upsert.
func TestAnOldSnapshotIsASerializationError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, race := range []struct{ name, kind, other, verb string }{
		{"both insert", "absent", "identical", "other_time"},
		{"both insert the same", "absent", "identical", "identical"},
		{"both edit", "QUEUED", "other_field", "other_time"},
		{"unchanged only in the snapshot", "QUEUED", "other_field", "identical"},
		{"reschedule", "QUEUED", "other_field", "re_other"},
		{"cancel", "QUEUED", "other_field", "cancel"},
		{"unpaused only in the snapshot", "QUEUED", "pause", "resume"},
		{"delete", "QUEUED", "other_field", "delete"},
		{"schedule what is deleted", "QUEUED", "delete", "identical"},
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			b.each(race.name+", "+string(level), func(b *bench) {
				id := race.name + string(level)
				b.Make(id, race.kind)
				tx := b.Begin(pgx.TxOptions{IsoLevel: level})
				b.Exec(tx, `SELECT count(*) FROM tasktable.scheduled_tasks`) // takes the snapshot
				b.do(race.other, id)
				before := b.state(id)
				task := base(id)
				if race.verb == "other_time" {
					task.At = far(5)
				}
				receipt, err := b.call(tx, race.verb, id, task)
				var failed *pgconn.PgError
				if !errors.As(err, &failed) || failed.Code != "40001" || errors.Is(err, store.ErrInvalid) {
					b.Errorf("got %+v, %v", receipt, err)
				}
				same(b, "task", b.state(id), before)
			})
		}
	}
}

func TestVerbsInEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		b.each(string(level), func(b *bench) {
			tx := b.Begin(pgx.TxOptions{IsoLevel: level})
			b.allVerbs(tx, string(level))
			b.Check(tx.Commit(b.Ctx))
			b.checkAllVerbs(string(level))
		})
	}
}
