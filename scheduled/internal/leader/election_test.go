package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p progress
		fails := func(d time.Duration) (rests bool) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) { // of the bubble's clock
				rests = p.note(false)
			}
			return rests
		}
		if fails(maxFailing) || p.rests() {
			t.Error("it rests too early")
		}
		p.note(true)
		if fails(maxFailing) {
			t.Error("it rests, though a pass had got on meanwhile")
		}
		if !fails(time.Second) || !p.rests() {
			t.Error("not noticed")
		}
		if fails(time.Second) {
			t.Error("said twice")
		}
		time.Sleep(restFor)
		if p.rests() {
			t.Error("it rests for ever")
		}
	})
}

// A leader that cannot claim, for a reason of its own, lets another lead.
func TestLeaderWithoutProgressResigns(t *testing.T) {
	b := newBench(t)
	run := func() *Leader {
		l := b.candidate(func(c *Config, _ *session.Registration) { c.PollInterval, c.Turned = time.Minute, func() {} })
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = l.Run(ctx, nil) })
		t.Cleanup(func() { cancel(); running.Wait() })
		return l
	}
	first := run()
	enginetest.Eventually(t, enginetest.Patience, "the first leads", first.session.Leads)
	b.Exec(fmt.Sprintf(`CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('application_name') = 'tasktable leader of node %d' THEN
				RAISE EXCEPTION 'this connection carries nothing' USING ERRCODE = '58030';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER stuck BEFORE INSERT ON tasktable.river_job FOR EACH ROW EXECUTE FUNCTION stuck()`,
		first.session.Number))
	second := run()
	began := time.Now()
	b.Add("a", nil)
	enginetest.Eventually(t, maxFailing+restFor, "the second leads", second.session.Leads)
	if took := time.Since(began); took < maxFailing-time.Second {
		t.Errorf("it took only %s", took)
	}
	b.Sees("the second claims", `SELECT status = 'EXECUTING' FROM tasktable.scheduled_tasks`)
}

// After a failover to a standby that was behind, the same numbers would be drawn again. The leader that finds another
// timeline than that of the leader before it moves the sequence once, before its first claim.
func TestNumbersMoveAfterAFailover(t *testing.T) {
	b := newBench(t)
	numbers := func() (last int64) {
		const sql = `SELECT least(t.last_value, j.last_value)
			FROM tasktable.task_numbers AS t, tasktable.river_job_id_seq AS j`
		b.OK(b.Pool.QueryRow(t.Context(), sql).Scan(&last))
		return last
	}
	elected := func() {
		t.Helper()
		l := b.candidate()
		b.leads(l)
		b.OK(l.resign(t.Context()))
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
