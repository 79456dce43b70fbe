package worker

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// Connections of the pool alone that lead to a standby are given up.
func TestReadOnlyPoolIsEvicted(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil)
	var taken []*pgxpool.Conn
	for range int(tr.config.EnginePool.Config().MaxConns) {
		conn, err := tr.config.EnginePool.Acquire(t.Context())
		s.OK(err)
		s.Did(conn.Exec(t.Context(), "SET default_transaction_read_only = on"))
		taken = append(taken, conn)
	}
	for _, conn := range taken {
		conn.Release()
	}
	tr.begin()
	tr.askPool(t.Context())
	conn, err := tr.config.EnginePool.Acquire(t.Context())
	s.OK(err)
	if err := pg.RefuseReadOnly(conn.QueryRow(t.Context(), pg.ReadOnlySQL)); err != nil {
		t.Error(err)
	}
	conn.Release()
	s.Add("a", nil)
	tr.batch(1, 0)
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, "COMPLETED")
}
