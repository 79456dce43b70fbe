package worker

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	settled := taskdb.SettleResult{Settled: true, Current: true}
	with := func(change func(*taskdb.SettleResult)) taskdb.SettleResult {
		state := settled
		change(&state)
		return state
	}
	died := with(func(s *taskdb.SettleResult) { s.Status = "FAILED" })
	const (
		lost     = "claim was taken back meanwhile; the outcome does not count"
		recorded = "outcome was recorded already"
		edited   = "task was edited or cancelled meanwhile; the outcome does not count"
		left     = "outcome not recorded; the leader takes the task back"
	)
	for name, test := range map[string]struct {
		outcome string
		state   taskdb.SettleResult
		err     error
		level   slog.Level
		why     string
	}{
		"done":             {taskdb.OutcomeCompleted, settled, nil, slog.LevelDebug, ""},
		"handed back":      {taskdb.OutcomeReleased, settled, nil, slog.LevelDebug, ""},
		"to be retried":    {taskdb.OutcomeRetried, settled, nil, slog.LevelWarn, ""},
		"dead":             {taskdb.OutcomeFailed, died, nil, slog.LevelError, ""},
		"expired":          {taskdb.OutcomeExpired, settled, nil, slog.LevelWarn, ""},
		"lost, runs again": {taskdb.OutcomeLost, settled, nil, slog.LevelWarn, ""},
		"lost for good":    {taskdb.OutcomeLost, died, nil, slog.LevelError, ""},
		"interrupted":      {taskdb.OutcomeInterrupted, settled, nil, slog.LevelInfo, ""},
		"snoozed":          {taskdb.OutcomeSnoozed, settled, nil, slog.LevelInfo, ""},
		"waits on": {
			taskdb.OutcomeSnoozed, with(func(s *taskdb.SettleResult) { s.Folded = true }), nil,
			slog.LevelDebug, "",
		},
		"edited meanwhile": {
			taskdb.OutcomeSuperseded, taskdb.SettleResult{Settled: true}, nil, slog.LevelInfo, edited,
		},
		"taken back": {taskdb.OutcomeLost, taskdb.SettleResult{}, nil, slog.LevelWarn, lost},
		"committed although there was an error": {
			taskdb.OutcomeCompleted, taskdb.SettleResult{}, nil, slog.LevelInfo, recorded,
		},
		"not recorded": {
			taskdb.OutcomeCompleted, taskdb.SettleResult{}, errors.New("no answer"), slog.LevelWarn, left,
		},
	} {
		level, why := describe(&taskdb.Settlement{Outcome: test.outcome}, test.state, test.err)
		if level != test.level || why != test.why {
			t.Errorf("%s: %s %q, want %s %q", name, level, why, test.level, test.why)
		}
	}
}
