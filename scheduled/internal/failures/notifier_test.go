package failures

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer // read when the failure notifier has ended
	told := make(chan Failure, 10)
	u := New(Config{Log: slog.New(slog.NewTextHandler(&logged, nil)), Dead: func(_ context.Context, dead Failure) {
		told <- dead
		switch dead.ID {
		case "bad":
			panic("no hook is perfect")
		case "worse":
			runtime.Goexit()
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { u.Run(ctx) })
	want := Failure{
		ID: "a", Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Revision: 7, Attempt: 5,
		Error: "not today",
	}
	for _, dead := range []Failure{want, {ID: "bad", Type: "JOB", Status: "FAILED", Revision: 8, Attempt: 1},
		{ID: "worse", Status: "EXPIRED"}, {ID: "after them", Status: "FAILED"}} {
		u.Tell(dead)
		if got := enginetest.Receive(t, told, enginetest.Patience, "the hook is called"); got != dead {
			t.Errorf("told %+v, want %+v", got, dead)
		}
	}
	cancel()
	wg.Wait()
	for _, part := range []string{
		"OnDead panicked", "task=bad", "type=JOB", "revision=8", "attempt=1", "no hook is perfect", "task=worse",
	} {
		if !strings.Contains(logged.String(), part) {
			t.Errorf("the log lacks %s: %s", part, logged.String())
		}
	}
	if n := strings.Count(logged.String(), "level="); n != 2 {
		t.Errorf("%d lines logged: %s", n, logged.String())
	}
}

// A hook that is too slow holds nobody up: what does not fit into the line is logged, all else is told, at
// last after the end.
func TestNotifierWithASlowHook(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	entered, goOn := make(chan struct{}, maxQueued+10), make(chan struct{})
	var told []string // by the failure notifier's goroutine
	u := New(Config{Log: slog.New(slog.NewTextHandler(&logged, nil)), Dead: func(ctx context.Context, dead Failure) {
		entered <- struct{}{}
		<-goOn
		if told = append(told, dead.ID); ctx.Err() != nil {
			t.Error("told with a context that has ended")
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { u.Run(ctx) })
	u.Tell(Failure{ID: "0", Status: "FAILED"})
	enginetest.Receive(t, entered, enginetest.Patience, "the hook is called")
	for i := range maxQueued + 3 { // the hook does not return: this must not wait for it
		u.Tell(Failure{ID: fmt.Sprint(i + 1), Status: "EXPIRED", Outcome: taskdb.OutcomeExpired})
	}
	if n := strings.Count(logged.String(), "OnDead is too slow; a call is left out"); n != 3 ||
		!strings.Contains(logged.String(), fmt.Sprint("task=", maxQueued+3)) ||
		!strings.Contains(logged.String(), "outcome=EXPIRED") {
		t.Errorf("%d lines: %.300s", n, logged.String())
	}
	cancel()
	close(goOn)
	wg.Wait()
	if len(told) != maxQueued+1 {
		t.Errorf("told %d", len(told))
	}
	for i, id := range told {
		if id != fmt.Sprint(i) {
			t.Fatalf("told %s as number %d", id, i)
		}
	}
}

// A hook that waits for its context, or for ever, does not keep the node from stopping; what it has not been told by
// then is logged.
func TestNotifierWithAHookThatWaits(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	for name, wait := range map[string]func(context.Context){
		"for its context": func(ctx context.Context) { <-ctx.Done() },
		"for ever":        func(context.Context) { <-never },
	} {
		var logged bytes.Buffer
		entered := make(chan struct{}, 3)
		u := New(Config{
			Dead: func(ctx context.Context, _ Failure) { entered <- struct{}{}; wait(ctx) },
			Log:  slog.New(slog.NewTextHandler(&logged, nil)), Grace: 50 * time.Millisecond,
		})
		for _, id := range []string{"a", "b", "c"} {
			u.Tell(Failure{ID: id, Status: "FAILED"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { u.Run(ctx); close(ended) }()
		enginetest.Receive(t, entered, enginetest.Patience, "the hook is called")
		cancel()
		enginetest.Receive(t, ended, enginetest.Patience, "it ends")
		if len(entered) != 0 || !strings.Contains(logged.String(), "task=b") ||
			!strings.Contains(logged.String(), "task=c") {
			t.Errorf("a hook that waits %s: %d more calls, %s", name, len(entered), logged.String())
		}
	}
}

func TestNotifierWithoutAHook(t *testing.T) {
	t.Parallel()
	u := New(Config{Log: slog.New(slog.DiscardHandler)})
	for range maxQueued + 1 {
		u.Tell(Failure{ID: "a", Status: "FAILED"})
		u.Tell(Failure{ID: "a", Status: "QUEUED"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.Run(ctx)
}

// A lost attempt whose task runs again is no dead letter: nobody is to be woken for it.
func TestNotifierTellsTheDeadFromTheLost(t *testing.T) {
	t.Parallel()
	var told []string // by the failure notifier's goroutine
	u := New(Config{
		Dead: func(_ context.Context, dead Failure) { told = append(told, fmt.Sprintf("dead %+v", dead)) },
		Lost: func(_ context.Context, lost Failure) { told = append(told, fmt.Sprintf("lost %+v", lost)) },
		Log:  slog.New(slog.DiscardHandler),
	})
	for _, status := range []string{"QUEUED", "FAILED", "CANCELLED"} {
		u.Tell(Failure{
			ID: "a", Type: "JOB", Outcome: taskdb.OutcomeLost, Status: status, Revision: 7, Attempt: 5,
			Error: "node 3 died",
		})
	}
	u.Tell(Failure{ID: "b", Outcome: taskdb.OutcomeExpired, Status: "EXPIRED"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.Run(ctx)
	want := []string{
		"lost {ID:a Type:JOB Outcome:LOST Status:QUEUED Revision:7 Attempt:5 Error:node 3 died}",
		"dead {ID:a Type:JOB Outcome:LOST Status:FAILED Revision:7 Attempt:5 Error:node 3 died}",
		"lost {ID:a Type:JOB Outcome:LOST Status:CANCELLED Revision:7 Attempt:5 Error:node 3 died}",
		"dead {ID:b Type: Outcome:EXPIRED Status:EXPIRED Revision:0 Attempt:0 Error:}",
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	h := taskdb.Claim{ID: "a", Fence: 9, Revision: 7, Attempt: 5}
	got := Of(taskdb.Lost(h, "its node is gone"), taskdb.SettleResult{Status: "QUEUED", Type: "JOB"})
	if want := (Failure{
		ID: "a", Type: "JOB", Outcome: "LOST", Status: "QUEUED", Revision: 7, Attempt: 5, Error: "its node is gone",
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Of(taskdb.Settlement{Claim: h, Outcome: taskdb.OutcomeCompleted}, taskdb.SettleResult{
		Status: "COMPLETED", Type: "JOB",
	}); got.Error != "" {
		t.Errorf("got %+v", got)
	}
}

// One node is told of a failure: the leader or the first node that has the type and a hook.
func TestRecipient(t *testing.T) {
	t.Parallel()
	const leader = 3
	self := taskdb.LiveNode{Number: leader, Hears: true, Types: []string{"MAIL"}}
	first := taskdb.LiveNode{Number: 1, Hears: true, Types: []string{"REPORT", "MAIL"}}
	hookless := taskdb.LiveNode{Number: 1, Types: []string{"MAIL"}}
	other := taskdb.LiveNode{Number: 1, Hears: true, Types: []string{"REPORT"}}
	second := taskdb.LiveNode{Number: 4, Hears: true, Types: []string{"MAIL"}}
	for name, test := range map[string]struct {
		nodes []taskdb.LiveNode
		want  int64
	}{
		"the leader, before an older node":         {[]taskdb.LiveNode{first, self, second}, leader},
		"the first of two":                         {[]taskdb.LiveNode{first, second}, 1},
		"the second: the first has no hook":        {[]taskdb.LiveNode{hookless, second}, 4},
		"the leader: the others have another type": {[]taskdb.LiveNode{other}, leader},
		"the leader: there is no other node":       {nil, leader},
	} {
		if got := Recipient("MAIL", leader, test.nodes); got != test.want {
			t.Errorf("%s: told node %d, want %d", name, got, test.want)
		}
	}
}
