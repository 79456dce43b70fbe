package scheduled

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// settler records outcomes by group commit. Outcomes with follow-ups have a group of their own: they wait for the rows of
// other tasks, and the others must not wait with them.
type settler struct {
	pool       *pgxpool.Pool
	statements statements
	node       int64
	service    string
	log        *slog.Logger
	dueSoon    func()      // tells the leader that something is due again at once
	heard      func(error) // notes what a statement of the pool came to
	metrics    *metrics
	reruns     reruns

	plain   *group[*settling]
	effects *group[*settling]
	most    atomic.Int64 // how many outcomes share a statement: fewer where it had no answer in time
	wg      sync.WaitGroup
}

type settling struct {
	settlement
	tries    int
	degraded bool
	done     func(settled, error)
}

const (
	settleMost = 1000
	// effectsMost is how much one statement schedules, by effectsWeight: a hundred tasks with a few small follow-ups
	// each.
	effectsMost = 100
	// groupRuns is how many statements of one kind are under way at once: while one waits for its commit or its answer, another is worked on.
	groupRuns = 2
)

// effectsWeight is 1, and more for a task with many follow-ups or with large ones: all of a group are one JSON text,
// which the server takes apart while it has their rows locked.
func effectsWeight(one *settling) int {
	const tasks, bytes = 10, 64 << 10 // what a weight of 1 has at most
	size := 0
	for _, task := range one.Effects.FollowUps {
		if payload, ok := task.Payload.(store.JSON); ok {
			size += len(payload)
		}
	}
	return max(1, (len(one.Effects.FollowUps)+tasks-1)/tasks, (size+bytes-1)/bytes)
}

func newSettler(pool *pgxpool.Pool, s statements, node int64, service string, log *slog.Logger, dueSoon func()) *settler {
	made := &settler{
		pool: pool, statements: s, node: node, service: service, log: log, dueSoon: dueSoon, heard: func(error) {},
		plain: newGroup[*settling](settleMost, nil), effects: newGroup(effectsMost, effectsWeight),
	}
	made.most.Store(settleMost)
	made.plain.limit = func() int { return int(made.most.Load()) }
	made.effects.limit = func() int { return int(min(made.most.Load(), effectsMost)) }
	return made
}

// start works until ctx is done; wait returns when it has stopped.
func (s *settler) start(ctx context.Context) {
	for range groupRuns {
		s.wg.Go(func() { s.plain.run(ctx, s.flush) })
	}
	s.wg.Go(func() { s.effects.run(ctx, s.flush) })
}

func (s *settler) wait() { s.wg.Wait() }

// submit has the outcome recorded; done is called once, when it is, when its fence turns out lost, or with an error when ctx,
// the settler's own, is done before.
func (s *settler) submit(ctx context.Context, one settlement, done func(settled, error)) {
	s.enqueue(ctx, &settling{settlement: one, done: done})
}

func (s *settler) enqueue(ctx context.Context, one *settling) {
	to := s.plain
	if len(one.Effects.FollowUps) > 0 {
		to = s.effects
	}
	select {
	case to.in <- one:
		if ctx.Err() != nil { // whoever emptied the channel last may be gone
			to.drain(ctx, s.flush)
		}
	case <-ctx.Done():
		one.done(settled{Fence: one.Fence}, ctx.Err())
	}
}

func (s *settler) flush(ctx context.Context, batch []*settling) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, settleLimit+limitFor(bytesOf(batch)))
	done, err := s.commit(limited, batch)
	cancel()
	s.heard(err)
	if spoke(err) {
		s.most.Store(min(2*s.most.Load(), settleMost))
	} else {
		s.most.Store(max(int64(len(batch)/2), 1))
	}
	s.metrics.settled(len(batch), time.Since(began), err)
	states := byFence(done)
	soon := false
	var failed []*settling
	for _, one := range batch {
		state, ended := states[one.Fence]
		if err != nil && !ended {
			failed = append(failed, one)
			continue
		}
		soon = soon || state.DueSoon
		if state.PutOff {
			s.putOff(one.ID, state.Type, state.Generations)
		}
		if state.Held {
			s.again(ctx, one) // an application's transaction has locked the row: it must not stall the rest
			continue
		}
		one.done(state, nil)
	}
	if soon {
		s.dueSoon()
	}
	if err != nil {
		s.recover(ctx, failed, err)
	}
}

// settleLimit is how long a statement that records outcomes may take, besides the time that its bytes need. It may have
// to wait for locks, or for an index that is being made.
const settleLimit = 5 * time.Second

// bytesOf is about how many bytes the outcomes have that a handler may make large.
func bytesOf(batch []*settling) (bytes int) {
	for _, one := range batch {
		bytes += len(one.Effects.Result)
		for _, task := range one.Effects.FollowUps {
			if payload, ok := task.Payload.(store.JSON); ok {
				bytes += len(payload)
			}
		}
	}
	return bytes
}

func (s *settler) commit(ctx context.Context, batch []*settling) ([]settled, error) {
	settlements := make([]settlement, len(batch))
	single := true // each is settled by itself, which needs no transaction around it all
	for i, one := range batch {
		settlements[i] = one.settlement
		if one.Effects.Again != nil || len(one.Effects.FollowUps) > 0 {
			single = false
		}
	}
	if single {
		return s.statements.completeOrSettle(ctx, s.pool, &s.node, settlements)
	}
	var done []settled
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		done, err = s.statements.settleAll(ctx, tx, nil, &s.node, s.service, settlements)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// recover finds the culprit of a failed commit by halving it, so that one task's data or lock does not keep the others from
// being settled.
func (s *settler) recover(ctx context.Context, batch []*settling, err error) {
	switch {
	case ctx.Err() != nil:
		for _, one := range batch {
			one.done(settled{Fence: one.Fence}, ctx.Err())
		}
	case len(batch) > 1 && (isDataError(err) || isTimeout(err)):
		s.flush(ctx, batch[:len(batch)/2])
		s.flush(ctx, batch[len(batch)/2:])
	case len(batch) == 1 && isDataError(err) && batch[0].tries == 0:
		s.again(ctx, batch[0]) // twice: see isDataError
	case len(batch) == 1 && isDataError(err) && !batch[0].degraded:
		// The database takes nothing of what the handler asked for: the task fails, and says why.
		one := batch[0]
		s.log.Error("outcome cannot be recorded; the task fails", "task", one.ID, "type", one.Type, "revision", one.Revision, "attempt", one.Attempt, "error", err)
		text := scrub(fmt.Sprintf("the outcome %s could not be recorded: %v", one.Outcome, err))
		one.degraded = true
		one.Outcome, one.To, one.Error, one.Message, one.Result = outcomeFailed, store.StatusFailed, &text, &text, nil
		one.ScheduledAt, one.Effects = nil, handlers.Effects{}
		s.again(ctx, one) // not enqueue: this goroutine is the one that empties the channel
	case len(batch) == 1 && isDataError(err):
		s.failBroken(ctx, batch[0], err)
	default:
		s.log.Warn("settling failed; trying again", "tasks", len(batch), "error", err)
		if isReadOnly(err) {
			s.pool.Reset() // the server behind these connections is a standby by now; new ones find the primary
		}
		for _, one := range batch {
			s.again(ctx, one)
		}
	}
}

// failBroken fails a task whose row takes no line of history either. If the database refuses even that, as an
// application's trigger may, it tries again for as long as the node lives: nobody else would end the claim.
func (s *settler) failBroken(ctx context.Context, one *settling, cause error) {
	why := scrub("the outcome could not be recorded: " + cause.Error())
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	tag, err := s.pool.Exec(limited, s.statements.schema.SQL(releaseBrokenSQL), one.ID, one.Fence, why)
	if err != nil {
		s.log.Error("task cannot be failed either; trying again", "task", one.ID, "revision", one.Revision, "attempt", one.Attempt, "error", err)
		s.again(ctx, one)
		return
	}
	failed := tag.RowsAffected() == 1
	one.done(settled{Fence: one.Fence, Settled: failed, Current: failed, Status: string(store.StatusFailed), Type: one.Type}, nil)
}

// degradedMost is the longest pause between tries to record that a task failed whose outcome the database refused.
const degradedMost = 30 * time.Second

// again enqueues an outcome once more after a while, longer each time.
func (s *settler) again(ctx context.Context, one *settling) {
	delay := min(20*time.Millisecond<<min(one.tries, 20), time.Second)
	if one.degraded {
		delay = min(20*time.Millisecond<<min(one.tries, 20), degradedMost)
	}
	one.tries++
	s.wg.Go(func() {
		select {
		case <-ctx.Done():
			one.done(settled{Fence: one.Fence}, ctx.Err())
		case <-time.After(delay):
			s.enqueue(ctx, one)
		}
	})
}
