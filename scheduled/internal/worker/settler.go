package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/groupcommit"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// settler records outcomes by group commit. Outcomes with follow-ups, and those of tasks that run again, have a group
// of their own. Their transactions take longer, and the other outcomes must not wait with them.
type settler struct {
	config Config

	plain   *groupcommit.Group[*settling]
	effects *groupcommit.Group[*settling]
	most    *pg.Size // how many outcomes share a statement; it shrinks when Postgres does not answer in time
	wg      sync.WaitGroup
}

type settling struct {
	taskdb.Settlement
	tries    int
	refused  int // how often Postgres refused this outcome alone, or took too long for its follow-ups
	degraded bool
	done     func(taskdb.SettleResult, error)
}

const (
	maxSettled = 1000
	// maxEffects is how much one statement schedules, counted by effectsWeight. A hundred tasks with a few small
	// follow-ups each make this much.
	maxEffects = 100
	// groupRuns is how many statements of one kind are under way at once. While one waits for its commit or its
	// answer, Postgres works on another.
	groupRuns = 2
	// groupRoom is how many items a group takes before a sender must wait. It is enough for all tasks that a node has
	// in hand. A batch that had to wait between two of its tasks would find the gate's answer too old for the next
	// task. It would then ask again for all tasks that are left, over and over.
	groupRoom = plan.MaxInHand
)

// changesTasks reports whether an outcome schedules tasks, or its own task anew.
func (ending *settling) changesTasks() bool {
	return ending.Effects.Again != nil || len(ending.Effects.FollowUps) > 0
}

// bytesPerFollowUp is how many bytes cost as much as a follow-up without a payload.
const bytesPerFollowUp = 1 << 10

// bytes is how much an outcome costs. All follow-ups of a group are one JSON text, and Postgres parses it while it
// holds the locks on their rows.
func (ending *settling) bytes() int {
	bytes := len(ending.Effects.Result) + bytesPerFollowUp*len(ending.Effects.FollowUps)
	for _, task := range ending.Effects.FollowUps {
		if payload, ok := task.Payload.(store.JSON); ok {
			bytes += len(payload)
		}
	}
	return bytes
}

// effectsWeight is 1, and more for a task with more than ten follow-ups or with large ones.
func effectsWeight(ending *settling) int { return 1 + ending.bytes()/(10*bytesPerFollowUp) }

func newSettler(config Config) *settler {
	made := &settler{config: config, most: pg.NewSize(1, maxSettled)}
	made.plain = groupcommit.New(groupcommit.Config[*settling]{
		Commit: made.flush, Room: groupRoom, Limit: made.most.Now,
	})
	made.effects = groupcommit.New(groupcommit.Config[*settling]{
		Commit: made.flush, Room: groupRoom, Weight: effectsWeight,
		Limit: func() int { return min(made.most.Now(), maxEffects) },
	})
	return made
}

// start begins to record outcomes, until ctx is done. wg waits for the end.
func (s *settler) start(ctx context.Context) {
	for range groupRuns {
		s.wg.Go(func() { s.plain.Run(ctx) })
		s.wg.Go(func() { s.effects.Run(ctx) }) // lockInOrder keeps two of them from a deadlock
	}
}

// enqueue has the outcome recorded. It calls done once: when the outcome is recorded, when the fence turns out to be
// lost, or with an error when ctx ends before. ctx must be the context of the settler itself.
func (s *settler) enqueue(ctx context.Context, ending *settling) {
	to := s.plain
	if ending.changesTasks() {
		to = s.effects
	}
	switch {
	case !to.Send(ctx, ending):
		ending.done(taskdb.SettleResult{Fence: ending.Fence}, ctx.Err())
	case ctx.Err() != nil: // the goroutines that empty the group may have ended
		to.Drain(ctx)
	}
}

// flush records outcomes and tells each one's done. It tries again those whose rows are locked, and leaves a failure to
// recover.
func (s *settler) flush(ctx context.Context, batch []*settling) {
	began, bytes := time.Now(), 0
	for _, ending := range batch {
		bytes += ending.bytes() // a handler may make results and follow-ups large, and the follow-ups many
	}
	limited, cancel := context.WithTimeout(ctx, settleLimit+limitFor(bytes))
	done, err := s.commit(limited, batch)
	cancel()
	s.config.Answered(err)
	if pg.PoolAnswered(err) {
		s.most.Grow()
	} else {
		s.most.Shrink(len(batch))
	}
	s.config.Metrics.Settled(len(batch), time.Since(began), err)
	states := taskdb.ByFence(done)
	soon := false
	var failed []*settling
	for _, ending := range batch {
		state, ended := states[ending.Fence]
		if err != nil && !ended {
			failed = append(failed, ending)
			continue
		}
		soon = soon || state.DueSoon
		if state.Held {
			s.again(ctx, ending) // an application's transaction has locked the row, and must not stall the others
			continue
		}
		ending.done(state, nil)
	}
	if soon {
		s.config.DueSoon()
	}
	if err != nil {
		s.recover(ctx, failed, err)
	}
}

// settleLimit is how long a statement that records outcomes may take, besides the time that its bytes need. The
// statement may have to wait for locks, or for an index that is being made.
const settleLimit = 5 * time.Second

// beginEffectsSQL has Postgres itself end a statement that takes too long. So the settler can tell it from a database
// that does not answer.
const beginEffectsSQL = `BEGIN; SET LOCAL statement_timeout = '5s'`

// maxRefused is how often Postgres may refuse an outcome before the attempt fails. It is more than once, see
// pg.IsDataError.
const maxRefused = 3

// minLinkSpeed is how many bytes a second a link carries at least. A statement with large payloads has more time
// accordingly.
const minLinkSpeed = 32 << 10

// limitFor is the time limit of a statement that carries the given number of bytes.
func limitFor(bytes int) time.Duration {
	return session.AnswerLimit + time.Duration(bytes)*time.Second/minLinkSpeed
}

// commit records outcomes that change no tasks by CompleteOrSettle, and the others by SettleAll in one transaction.
func (s *settler) commit(ctx context.Context, batch []*settling) ([]taskdb.SettleResult, error) {
	settlements := make([]taskdb.Settlement, len(batch))
	for i, ending := range batch {
		settlements[i] = ending.Settlement
	}
	if !batch[0].changesTasks() { // then no other of its group does, and each statement settles its tasks by itself
		return s.config.Statements.CompleteOrSettle(ctx, s.config.EnginePool, &s.config.Number, settlements)
	}
	var done []taskdb.SettleResult
	begin := pgx.TxOptions{BeginQuery: beginEffectsSQL}
	err := pgx.BeginTxFunc(ctx, s.config.EnginePool, begin, func(tx pgx.Tx) (err error) {
		done, err = s.config.Statements.SettleAll(ctx, tx, nil, &s.config.Number, s.config.Service, settlements)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// recover deals with a failed commit. If the cause may be one task's data or lock, it halves the batch until it has
// found that task, so that the others are settled.
func (s *settler) recover(ctx context.Context, batch []*settling, err error) {
	switch {
	case ctx.Err() != nil:
		for _, ending := range batch {
			ending.done(taskdb.SettleResult{Fence: ending.Fence}, ctx.Err())
		}
	case len(batch) > 1 && (pg.IsDataError(err) || pg.IsTimeout(err)):
		s.flush(ctx, batch[:len(batch)/2])
		s.flush(ctx, batch[len(batch)/2:])
	case len(batch) == 1 && (pg.IsDataError(err) || pg.IsCanceled(err) && len(batch[0].Effects.FollowUps) > 0):
		s.refused(ctx, batch[0], err)
	default:
		s.config.Log.Warn("outcomes not recorded; trying again", "tasks", len(batch), "error", err)
		if pg.IsReadOnly(err) {
			// The server of these connections is a standby by now; new connections find the primary.
			s.config.EnginePool.Reset()
		}
		for _, ending := range batch {
			s.again(ctx, ending)
		}
	}
}

// refused deals with an outcome that Postgres does not record as the handler asked for it.
func (s *settler) refused(ctx context.Context, ending *settling, err error) {
	ending.refused++
	switch {
	case ending.degraded:
		s.failBroken(ctx, ending, err)
	case ending.refused < maxRefused:
		s.config.Log.Warn("outcome refused; trying again",
			"task", ending.ID, "type", ending.Type, "revision", ending.Revision, "attempt", ending.Attempt,
			"error", err)
		s.again(ctx, ending)
	case pg.IsDataError(err):
		s.degrade(ctx, ending, fmt.Errorf("the outcome %s could not be recorded: %w", ending.Outcome, err))
	default:
		s.degrade(ctx, ending, fmt.Errorf(
			"its %d follow-ups could not be scheduled in time: %w", len(ending.Effects.FollowUps), err))
	}
}

// degrade fails a task whose outcome cannot be recorded as the handler asked for it. Its error gives the reason.
func (s *settler) degrade(ctx context.Context, ending *settling, why error) {
	s.config.Log.Error("outcome cannot be recorded; the task fails",
		"task", ending.ID, "type", ending.Type, "revision", ending.Revision, "attempt", ending.Attempt, "error", why)
	text := sanitize.Text(why.Error())
	ending.degraded = true
	ending.Outcome, ending.To = taskdb.OutcomeFailed, store.StatusFailed
	ending.Error, ending.Message, ending.Result = &text, &text, nil
	ending.ScheduledAt, ending.Effects = nil, handlers.Effects{}
	s.again(ctx, ending) // enqueue could block for ever, because this goroutine is the one that empties the channel
}

// failBroken fails a task whose outcome Postgres refuses, whatever the outcome. If Postgres refuses to fail the task
// too, as an application's trigger may make it do, the settler tries again for as long as the node lives. It must,
// because nobody else would end the claim.
func (s *settler) failBroken(ctx context.Context, ending *settling, cause error) {
	why := sanitize.Text("the outcome could not be recorded: " + cause.Error())
	limited, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	failed, err := s.config.Statements.FailHeld(limited, s.config.EnginePool, ending.Claim, why)
	if err != nil {
		s.config.Log.Error("task cannot be failed either; trying again",
			"task", ending.ID, "revision", ending.Revision, "attempt", ending.Attempt, "error", err)
		s.again(ctx, ending)
		return
	}
	state := taskdb.SettleResult{Fence: ending.Fence, Type: ending.Type, Recorded: taskdb.OutcomeLost}
	if failed {
		state.Settled, state.Current = true, true
		state.Status, state.Recorded = string(store.StatusFailed), taskdb.OutcomeFailed
	}
	ending.done(state, nil)
}

// maxDegraded is the longest pause between two tries to record the failure of a task whose outcome Postgres refused.
const maxDegraded = 30 * time.Second

// again enqueues an outcome once more after a pause. The pause grows with each try.
func (s *settler) again(ctx context.Context, ending *settling) {
	longest := time.Second
	if ending.degraded {
		longest = maxDegraded
	}
	delay := min(20*time.Millisecond<<min(ending.tries, 20), longest)
	ending.tries++
	s.wg.Go(func() {
		select {
		case <-ctx.Done():
			ending.done(taskdb.SettleResult{Fence: ending.Fence}, ctx.Err())
		case <-time.After(delay):
			s.enqueue(ctx, ending)
		}
	})
}
