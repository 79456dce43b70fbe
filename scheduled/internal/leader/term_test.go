package leader

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// replaced ends a leader's session, as a cut connection does, and has another node lead.
func (b *bench) replaced(l, by *Leader) {
	b.T.Helper()
	b.Exec(`SELECT pg_terminate_backend($1)`, int(l.session.Backend))
	began := time.Now()
	enginetest.Eventually(b.T, enginetest.Patience, "another node leads", func() bool {
		leads, err := by.elect(b.T.Context(), true)
		if err != nil {
			b.T.Error(err)
		}
		return leads
	})
	if took := time.Since(began); took > 5*time.Second {
		b.T.Errorf("the election took %s", took)
	}
}

func isReplaced(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "55000"
}

// A leader that was replaced commits nothing that it has written, whatever its transaction was about to do. Its open
// transaction does not hold up the election of the next leader.
func TestReplacedLeaderCommitsNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sql     string
		refused bool
	}{
		"a write":        {`UPDATE work SET by = 'first'`, true},
		"a lock":         {`SELECT 1 FROM work FOR UPDATE`, true},
		"in a savepoint": {`SAVEPOINT s; UPDATE work SET by = 'first'; RELEASE s`, true},
		"a look":         {`SELECT 1 FROM work`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Exec(`CREATE TABLE work (by text)`)
			b.Exec(`INSERT INTO work VALUES ('nobody')`)
			first, second := b.candidate(), b.candidate()
			b.leads(first)
			err := first.transaction(t.Context(), func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), test.sql)
				b.replaced(first, second)
				return err
			})
			if isReplaced(err) != test.refused || !test.refused && err != nil {
				t.Errorf("it commits with %v", err)
			}
			b.wroteBy("nobody")
			if err := second.transaction(t.Context(), func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE work SET by = 'second'`)
				return err
			}); err != nil {
				t.Errorf("the second leader: %v", err)
			}
			b.wroteBy("second")
			if leads, err := first.elect(t.Context(), true); test.refused && (leads || err == nil) {
				t.Errorf("it leads again, without its session: %t, %v", leads, err)
			}
		})
	}
}

func (b *bench) wroteBy(want string) {
	b.T.Helper()
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), `SELECT by FROM work`).Scan(&got); err != nil || got != want {
		b.T.Errorf("the work is %s's, %v; want %s's", got, err, want)
	}
}

// The commit of a connection that the leader has given up comes too late, because the leader has begun a new term. A
// commit that is under way holds up the new term.
func TestNewTermWaitsForCommits(t *testing.T) {
	b := newBench(t)
	b.Exec(`CREATE TABLE work (by text)`)
	b.Exec(`INSERT INTO work VALUES ('nobody')`)
	l := b.candidate()
	b.leads(l)
	former := l.commitSQL
	tx, err := b.Pool.Begin(t.Context())
	b.OK(err)
	for _, sql := range []string{`UPDATE work SET by = 'former'`, former[:len(former)-len("; COMMIT")]} {
		b.Did(tx.Exec(t.Context(), sql))
	}
	if err := l.beginTerm(t.Context()); !pg.IsLocked(err) || l.leads() {
		t.Errorf("a commit is under way, and a term begins: %t, %v", l.leads(), err)
	}
	b.OK(tx.Commit(t.Context()))
	b.leads(l)
	_, err = b.Pool.Exec(t.Context(), `BEGIN; UPDATE work SET by = 'late'; `+former)
	if !isReplaced(err) {
		t.Errorf("the former term commits with %v", err)
	}
	b.wroteBy("former")
}

// A node that could not write that it leads tries again. After some time it lets another node lead.
func TestTermIsBegunAgain(t *testing.T) {
	b := newBench(t)
	l, other := b.candidate(), b.candidate()
	tx, err := b.Pool.Begin(t.Context())
	b.OK(err)
	b.Did(tx.Exec(t.Context(), `SELECT FROM tasktable.nodes WHERE number = $1 FOR UPDATE`,
		l.session.Number))
	for try := range 2 {
		if leads, err := l.elect(t.Context(), true); leads || !pg.IsLocked(err) || l.session.Leads() != (try == 0) {
			t.Errorf("try %d: %t, %v; has the lock: %t", try, leads, err, l.session.Leads())
		}
		l.progress.failingSince = l.progress.failingSince.Add(-maxFailing)
	}
	b.leads(other)
	b.OK(tx.Rollback(t.Context()))
	b.OK(other.resign(t.Context()))
	l.progress = progress{}
	b.leads(l)
	var noted bool
	if err := b.Pool.QueryRow(t.Context(), `SELECT timeline IS NOT NULL AND elected_at = (SELECT max(elected_at)
		FROM tasktable.nodes) FROM tasktable.nodes WHERE number = $1`, l.session.Number).Scan(&noted); err != nil || !noted {
		t.Errorf("noted: %t, %v", noted, err)
	}
}

// A session that does not have the leader's lock where the leader's connection writes is given up.
func TestTermNeedsTheSessionsLock(t *testing.T) {
	b := newBench(t)
	l := b.candidate()
	b.OK(l.session.Ask(t.Context(), true))
	b.Did(l.session.Conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`))
	if leads, err := l.elect(t.Context(), true); leads || err == nil || !l.session.Closed() || l.session.Leads() {
		t.Errorf("leads: %t, %v; closed: %t", leads, err, l.session.Closed())
	}
}
