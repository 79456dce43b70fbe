package leader

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// After a failover to a standby that was behind, the same numbers would be drawn again. The leader that finds another
// timeline than that of the leader before it moves the sequence once, before its first claim.
func TestNumbersMoveAfterAFailover(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn, err := pgx.ConnectConfig(t.Context(), b.Pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	numbers := func() (last int64) {
		const sql = `SELECT least(t.last_value, j.last_value)
			FROM tasktable.task_numbers AS t, tasktable.river_job_id_seq AS j`
		if err := b.Pool.QueryRow(t.Context(), sql).Scan(&last); err != nil {
			t.Fatal(err)
		}
		return last
	}
	elected := func() {
		t.Helper()
		var number int64
		if err := b.Pool.QueryRow(t.Context(), `INSERT INTO tasktable.nodes (service, version, host, queues, types)
			VALUES ('s', 'v', 'h', '{}', '{}') RETURNING number`).Scan(&number); err != nil {
			t.Fatal(err)
		}
		l := &Leader{
			statements: b.Queries, log: enginetest.Logger(), ends: pg.NewSize(1, 1),
			session: &session.Session{Start: time.Now(), Conn: conn, Number: number, Leads: true},
		}
		l.begins()
		if leads, err := l.elect(t.Context(), true); !leads || err != nil {
			t.Fatalf("leads: %t, %v", leads, err)
		}
	}
	last := numbers()
	for _, step := range []struct {
		what  string
		moves bool
	}{{"the first leader", false}, {"another one", false}, {"after a failover", true}, {"after that", false}} {
		if step.moves {
			b.Exec(`UPDATE tasktable.nodes SET timeline = 'FFFFFFFF' WHERE elected_at = (SELECT max(elected_at)
				FROM tasktable.nodes)`)
		}
		elected()
		now := numbers()
		if moved := now - last; (moved >= 10000000) != step.moves || !step.moves && moved > 100 {
			t.Errorf("%s: the numbers move by %d", step.what, moved)
		}
		last = now
	}
}

// A node that could not write that it leads tries again, and makes no tick before. Its session lives.
func TestLeadingIsNotedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn, err := pgx.ConnectConfig(t.Context(), b.Pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `SET lock_timeout = '50ms'`); err != nil {
		t.Fatal(err)
	}
	b.Exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types) VALUES ('s', 'v', 'h', '{}', '{}')`)
	l := &Leader{
		statements: b.Queries, log: enginetest.Logger(),
		session: &session.Session{Start: time.Now(), Clock: session.NewClock(), Conn: conn, Number: 1, Leads: true},
	}
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM tasktable.nodes FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	tried := time.Now()
	if leads, err := l.elect(t.Context(), true); leads || !pg.IsLocked(err) {
		t.Errorf("locked: %t, %v", leads, err)
	}
	if silent := l.session.Unanswered(); silent > time.Since(tried) {
		t.Errorf("its session lives, and counts as silent for %s", silent)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leads, err := l.elect(t.Context(), true); !leads || err != nil {
		t.Errorf("unlocked: %t, %v", leads, err)
	}
	var noted bool
	if err := b.Pool.QueryRow(t.Context(), `SELECT elected_at IS NOT NULL AND timeline IS NOT NULL FROM tasktable.nodes`).
		Scan(&noted); err != nil || !noted {
		t.Errorf("noted: %t, %v", noted, err)
	}
}
