package worker

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// end has an outcome recorded, and then forgets the task. Recording may take a while, and meanwhile the lease may end.
// Only the first call counts.
func (j *job) end(r *run, s taskdb.Settlement) {
	if r.ended.Swap(true) {
		return
	}
	ending := &settling{Settlement: s}
	ending.done = func(state taskdb.SettleResult, err error) {
		j.tell(r, &ending.Settlement, state, err)
		j.forget(r)
	}
	j.settler.enqueue(j.settling, ending)
}

// drop forgets a task that needs no settlement: its fence is lost, or its handler's own transaction has settled it.
func (j *job) drop(r *run) {
	if r.ended.Swap(true) {
		return
	}
	j.forget(r)
}

// forget removes a claim that is over, or that the node has given up. The job's finish waits until all of its tasks are
// forgotten.
func (j *job) forget(r *run) {
	j.mu.Lock()
	delete(j.runs, r.Fence)
	j.mu.Unlock()
	if j.window != nil {
		j.window.ends(r.place)
	}
	j.pending.Done()
}

// tell writes the log line of a claim's end, counts it, and tells the application of a failure.
func (j *job) tell(r *run, s *taskdb.Settlement, state taskdb.SettleResult, err error) {
	if err == nil {
		s.Outcome = state.Recorded // another one if, for example, the task was edited meanwhile
	}
	if s.Type == "" { // a claim that never started
		s.Type = cmp.Or(state.Type, j.kind)
	}
	level, why := describe(s, state, err)
	j.logEnd(r.span(), level, why, s)
	if !state.Settled {
		return
	}
	if !state.Folded {
		j.tally.Recorded(s.Outcome)
	}
	if !state.Current {
		return
	}
	if s.Waits {
		j.tally.Waited.Inc()
	}
	dead := state.Status == string(store.StatusExpired) || state.Status == string(store.StatusFailed)
	if dead || s.Outcome == taskdb.OutcomeLost {
		j.tally.Died(state.Status)
		j.config.Failures.Tell(failures.Of(*s, state))
	}
}

// describe returns the level of the log line of a claim's end. If the outcome does not count, it also returns why. The
// outcome of s is the one that the history shows. state and err are the answer of the statement that settled s.
func describe(s *taskdb.Settlement, state taskdb.SettleResult, err error) (level slog.Level, why string) {
	switch {
	case err != nil:
		return slog.LevelWarn, "outcome not recorded; the leader takes the task back"
	case !state.Settled && s.Outcome == taskdb.OutcomeLost:
		return slog.LevelWarn, "claim was taken back meanwhile; the outcome does not count"
	case !state.Settled:
		return slog.LevelInfo, "outcome was recorded already"
	case !state.Current:
		return slog.LevelInfo, "task was edited or cancelled meanwhile; the outcome does not count"
	}
	switch s.Outcome {
	case taskdb.OutcomeFailed:
		level = slog.LevelError
	case taskdb.OutcomeLost, taskdb.OutcomeRetried, taskdb.OutcomeExpired:
		level = slog.LevelWarn
		if state.Status == string(store.StatusFailed) { // the lost attempt was the last
			level = slog.LevelError
		}
	case taskdb.OutcomeCompleted, taskdb.OutcomeReleased:
		level = slog.LevelDebug
	default:
		level = slog.LevelInfo
		if state.Folded {
			level = slog.LevelDebug
		}
	}
	return level, ""
}

// logEnd writes the log line of an attempt's end, with the outcome and the error. At level debug it also writes the
// stack of a panic.
func (w *Worker) logEnd(ctx context.Context, level slog.Level, why string, s *taskdb.Settlement) {
	if !w.config.Log.Enabled(ctx, level) {
		return // saves the memory of the attributes
	}
	text := cmp.Or(why, "task "+s.Outcome)
	attributes := []any{
		"task", s.ID, "type", s.Type, "revision", s.Revision, "attempt", s.Attempt, "outcome", s.Outcome,
	}
	if s.Error == nil || !w.config.LogErrors {
		w.config.Log.Log(ctx, level, text, attributes...)
		return
	}
	line, stack := oneLine(*s.Error)
	w.config.Log.Log(ctx, level, text, append(attributes, "error", line)...)
	if stack != "" {
		w.config.Log.DebugContext(ctx, "the stack of the panic", "task", s.ID, "type", s.Type,
			"revision", s.Revision, "attempt", s.Attempt, "stack", stack)
	}
}
