package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// A term is the time for which a leader has one connection. The session's lock elects the leader, and the number of the
// term fences it: a transaction that has written commits only if no later term has begun. So a leader that was replaced
// commits nothing, and neither does a connection of its own that it has given up.

// maxAnswer is how long the leader's connection may take for a tick or a transaction. Postgres limits each statement to
// two seconds, so a connection that takes longer is dead.
const maxAnswer = 20 * time.Second

// awaitCommitsSQL waits for the commits of the term before. They take this lock together, in the function must_lead.
const awaitCommitsSQL = `SELECT pg_advisory_xact_lock($1, 1)`

// beginTermSQL writes who leads. The time is the number of the term, so it rises even if the clock is set back. The
// session must have its locks where this connection writes: the two might have found different servers.
const beginTermSQL = `
UPDATE tasktable.nodes SET elected_at = greatest(clock_timestamp(),
    (SELECT max(n.elected_at) FROM tasktable.nodes AS n) + interval '1 microsecond')
WHERE number = $1 AND EXISTS (
    SELECT 1 FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.classid::bigint = $2 AND l.objid = 0 AND l.objsubid = 2 AND l.granted
        AND l.pid = $3 AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
RETURNING elected_at`

// mustLeadSQL stands before each commit, in the same message. It takes no parameters then, so they are written into it.
const mustLeadSQL = `SELECT tasktable.must_lead($1, $2)`

// beginTerm connects, and writes that this node leads. The leader forgets what it knew before.
func (l *Leader) beginTerm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, session.Timeout)
	defer cancel()
	l.endTerm(ctx)
	conn, err := l.session.ConnectLeader(ctx)
	if err != nil {
		if errors.Is(err, pg.ErrReadOnly) {
			l.session.Close(ctx)
		}
		return err
	}
	lock := pg.LockClass(l.session.Schema, "leader")
	var term time.Time
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, awaitCommitsSQL, lock); err != nil {
			return err
		}
		return tx.QueryRow(ctx, l.statements.Schema.SQL(beginTermSQL),
			l.session.Number, int64(uint32(lock)), int64(l.session.Backend)).Scan(&term)
	})
	if err == nil {
		err = l.moveNumbers(ctx, conn)
	}
	if err != nil {
		session.Close(ctx, conn)
		if errors.Is(err, pgx.ErrNoRows) {
			l.session.Close(ctx)
			err = errors.New("the server of the leader's connection does not know the session's locks")
		}
		return fmt.Errorf("begin a term: %w", err)
	}
	l.conn = conn
	l.commitSQL = strings.NewReplacer("$1", strconv.Itoa(int(lock)), "$2", term.UTC().Format("'"+time.RFC3339Nano+"'")).
		Replace(l.statements.Schema.SQL(mustLeadSQL)) + "; COMMIT"
	l.deadNodes, l.jobs = failureDetector{}, riverjobs.View{} // another leader has inserted jobs meanwhile
	l.walk, l.abandoned = l.newWalk(), nil
	l.lanes, l.unwritten, l.begins = newLanes(), false, true
	if err := l.takeOver(ctx); err != nil {
		l.endTerm(ctx)
		return err
	}
	l.log.Info("node leads", "term", term)
	return nil
}

// transaction runs do in a transaction of the term. Its commit fails if it has written and a later term has begun. If
// there is an error and the connection lives, Postgres has rolled it back.
func (l *Leader) transaction(ctx context.Context, do func(tx pgx.Tx) error) error {
	defer l.limit().Stop()
	err := pgx.BeginTxFunc(ctx, l.conn, pgx.TxOptions{CommitQuery: l.commitSQL}, do)
	l.lanes.buckets.settle(err != nil && !l.conn.IsClosed())
	return err
}

// limit ends the connection after maxAnswer, unless the timer is stopped before.
func (l *Leader) limit() *time.Timer {
	wire := l.conn.PgConn().Conn()
	return time.AfterFunc(maxAnswer, func() { _ = wire.Close() })
}

// leads reports whether the node has the leader's lock and a term.
func (l *Leader) leads() bool { return l.session.Leads() && l.conn != nil && !l.conn.IsClosed() }

// resign ends the term, and lets another node lead.
func (l *Leader) resign(ctx context.Context) error {
	l.endTerm(ctx)
	return l.session.Resign(ctx)
}

func (l *Leader) endTerm(ctx context.Context) {
	if l.conn != nil {
		session.Close(ctx, l.conn)
	}
}
