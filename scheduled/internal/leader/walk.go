package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// walk does in the background, on the engine's pool, what may have to step over millions of dead index entries. The
// leader does not wait for it. It puts the tasks that lie before the marks behind the others of their lanes, by their
// ids. Such tasks are those whose transaction committed long after it wrote them, and those that somebody had locked or
// that the leader had left alone. It also makes a survey that takes too long for the session.
type walk struct {
	pool       *pgxpool.Pool
	turns      session.Turns
	statements taskdb.Queries
	log        *slog.Logger
	moved      func() // makes the leader look

	busy           chan time.Duration // gets how long the walk under way took; nil: there is none
	ended          time.Time
	took           time.Duration
	statementsLeft int // of the walk under way

	claimed bool // tasks were claimed since the last walk began

	surveys chan surveyed // the one under way; nil: there is none
	limit   time.Duration // how long the next survey may take
}

const (
	// The pause between two walks is at least walkSoon while tasks may commit before the marks, walkLater if tasks were
	// claimed since, and walkRarely otherwise. It is also walkShare times as long as the last walk took.
	walkSoon, walkLater, walkRarely = time.Second, 4 * time.Second, time.Minute
	walkShare                       = 4
	// narrowest is how long the time range of a lane is at least if Postgres cannot move its tasks.
	narrowest = time.Millisecond
	// maxStatements is how many statements a walk makes at most. The next walk begins again at the marks, where nearly
	// all such tasks lie.
	maxStatements = 1000
	// surveyOnSession bounds a survey on the session, and surveyAtLeast and surveyAtMost those on the pool.
	surveyOnSession             = 300 * time.Millisecond
	surveyAtLeast, surveyAtMost = 2 * time.Second, 5 * time.Minute
	// maxConnecting is how long the pool may take to give a connection that answers.
	maxConnecting = 2 * time.Second
)

var errWalkTooLong = errors.New("the walk has made too many statements")

// begin starts a walk if it is time for one.
func (w *walk) begin(ctx context.Context, lanes *Lanes) {
	if w.busy != nil {
		select {
		case w.took = <-w.busy:
			w.busy, w.ended = nil, time.Now()
		default:
			return
		}
	}
	pause := walkRarely
	if w.claimed {
		pause = walkLater
	}
	var ranges [2][]taskdb.LaneRange
	for i, m := range []*Marks{&lanes.tasks, &lanes.recurring} {
		for _, one := range m.reach(lanes.writers.settled, false).Known {
			ranges[i] = append(ranges[i], taskdb.LaneRange{LaneFrom: one, Until: one.Since})
			ranges[i][len(ranges[i])-1].Since = beginning
			if one.Since.After(lanes.writers.settled) {
				pause = walkSoon
			}
		}
	}
	if time.Since(w.ended) < max(pause, walkShare*w.took) || len(ranges[0])+len(ranges[1]) == 0 {
		return
	}
	w.claimed = false
	busy := make(chan time.Duration, 1)
	w.busy = busy
	go func() {
		began := time.Now()
		w.statementsLeft = maxStatements
		err := w.move(ctx, false, ranges[0])
		err = errors.Join(err, w.move(ctx, true, ranges[1]))
		if err != nil && ctx.Err() == nil {
			w.log.Warn("leader could not look for tasks that lie before the marks of their lanes; it tries again",
				"error", err)
		}
		busy <- time.Since(began)
	}()
}

// move moves the tasks of the ranges. If that takes too long, or if Postgres refuses a task, it halves the ranges until
// it has passed the task.
func (w *walk) move(ctx context.Context, recurring bool, ranges []taskdb.LaneRange) error {
	if len(ranges) == 0 {
		return nil
	}
	moved := taskdb.MaxRequeued
	var err error
	for moved >= taskdb.MaxRequeued && err == nil {
		if w.statementsLeft--; w.statementsLeft < 0 {
			return errWalkTooLong
		}
		if moved, err = w.moveSome(ctx, recurring, ranges); moved > 0 {
			w.moved()
		}
	}
	switch one := ranges[0]; {
	case pg.IsLocked(err) || !pg.IsTimeout(err) && !pg.IsDataError(err):
		return err
	case len(ranges) > 1:
		half := len(ranges) / 2
		if err := w.move(ctx, recurring, ranges[:half]); err != nil {
			return err
		}
		return w.move(ctx, recurring, ranges[half:])
	case one.Until.Sub(one.Since) > narrowest:
		middle := one.Until.Add(-one.Until.Sub(one.Since) / 8) // most dead entries are of the last hours
		before, after := one, one
		before.Until, after.Since = middle, middle
		if err := w.move(ctx, recurring, []taskdb.LaneRange{after}); err != nil {
			return err
		}
		return w.move(ctx, recurring, []taskdb.LaneRange{before})
	default:
		w.log.Error("tasks that lie before the mark of their lane cannot be moved; they wait", "queue", one.Queue,
			"type", one.Type, "priority", one.Priority, "until", one.Until, "error", err)
		return nil
	}
}

func (w *walk) moveSome(ctx context.Context, recurring bool, ranges []taskdb.LaneRange) (moved int, err error) {
	err = w.connected(ctx, session.AnswerLimit, func(ctx context.Context, conn *pgxpool.Conn) error {
		moved, err = w.statements.Requeue(ctx, conn, recurring, ranges)
		return err
	})
	return moved, err
}

// connected calls do with a connection of the pool that has just answered. The other end of a connection in the pool
// may be gone without notice, for example after a firewall has forgotten the connection.
func (w *walk) connected(
	ctx context.Context, within time.Duration, do func(ctx context.Context, conn *pgxpool.Conn) error,
) error {
	leave, err := w.turns.Take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	connecting, cancel := context.WithTimeout(ctx, maxConnecting)
	defer cancel()
	conn, err := w.pool.Acquire(connecting)
	if err != nil {
		return fmt.Errorf("take a connection: %w", err)
	}
	defer conn.Release()
	if err := conn.Ping(connecting); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	ctx, cancel = context.WithTimeout(ctx, within)
	defer cancel()
	return do(ctx, conn)
}

// surveyed is a survey with River's jobs.
type surveyed struct {
	*survey
	withJobs bool
	jobs     []riverjobs.Row
	err      error
}

const surveyLimitSQL = `SELECT set_config('statement_timeout', ($1::bigint)::text, true)`

// queueSurvey adds the statements of a survey to a batch.
func (l *Leader) queueSurvey(batch *pgx.Batch, limit time.Duration) surveyed {
	batch.Queue(surveyLimitSQL, limit.Milliseconds())
	made := surveyed{survey: l.Lanes.queueSurvey(l.statements, batch), withJobs: l.jobs.Next == 0}
	if made.withJobs {
		batch.Queue(l.statements.Schema.SQL(riverjobs.LookSQL), 0, []int64{})
	}
	return made
}

func (s *surveyed) read(results pgx.BatchResults) error {
	_, err := results.Exec()
	if err == nil {
		err = s.survey.read(results)
	}
	if err == nil && s.withJobs {
		s.jobs, err = pg.CollectNext[riverjobs.Row](results, "read River's jobs")
	}
	return errors.Join(err, results.Close())
}

// survey makes a survey if one is owed: on the session, and if that takes too long, on the pool.
func (l *Leader) survey(ctx context.Context) error {
	if l.Ready() && !l.Lanes.owes() {
		return nil
	}
	if l.walk.surveys != nil {
		select {
		case made := <-l.walk.surveys:
			l.walk.surveys = nil
			if made.err == nil {
				l.learn(made)
				return nil
			}
			l.log.Warn("leader could not read all lanes; it tries again", "error", made.err)
		default:
			return nil
		}
	}
	var batch pgx.Batch
	made := l.queueSurvey(&batch, surveyOnSession)
	sent := time.Now()
	err := made.read(l.session.Conn.SendBatch(ctx, &batch))
	l.session.Heard(sent, err)
	if err == nil {
		l.learn(made)
		return nil
	}
	if !pg.IsTimeout(err) {
		return fmt.Errorf("survey: %w", err)
	}
	l.walk.survey(ctx, l)
	return nil
}

// learn takes a survey.
func (l *Leader) learn(made surveyed) {
	l.walk.limit = 0
	if l.Lanes.learn(made.survey); l.Lanes.owes() { // there are very many lanes
		tell(l.surveyed)
	}
	if made.withJobs {
		l.jobs.Begin(made.jobs)
	}
}

// survey starts a survey on the pool. Each may take twice as long as the last one.
func (w *walk) survey(ctx context.Context, l *Leader) {
	w.limit = min(max(2*w.limit, surveyAtLeast), surveyAtMost)
	var batch pgx.Batch
	made, limit := l.queueSurvey(&batch, w.limit), w.limit
	surveys := make(chan surveyed, 1)
	w.surveys = surveys
	go func() {
		made.err = w.connected(ctx, 4*limit, func(ctx context.Context, conn *pgxpool.Conn) error {
			return made.read(conn.SendBatch(ctx, &batch))
		})
		surveys <- made
		tell(l.surveyed)
	}()
}

// forget makes the walk begin at once, because the node begins to lead.
func (w *walk) forget() {
	w.busy, w.surveys, w.limit, w.claimed, w.ended, w.took = nil, nil, 0, true, time.Time{}, 0
}
