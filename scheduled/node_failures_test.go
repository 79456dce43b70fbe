package scheduled

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

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestUndertaker(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer // read when the failure notifier has ended
	told := make(chan Dead, 10)
	u := newFailureNotifier(func(_ context.Context, dead Dead) {
		told <- dead
		switch dead.ID {
		case "bad":
			panic("no hook is perfect")
		case "worse":
			runtime.Goexit()
		}
	}, nil, slog.New(slog.NewTextHandler(&logged, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { u.run(ctx) })
	want := Dead{
		ID: "a", Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Revision: 7, Attempt: 5,
		Error: "not today",
	}
	for _, dead := range []Dead{want, {ID: "bad", Type: "JOB", Status: "FAILED", Revision: 8, Attempt: 1},
		{ID: "worse", Status: "EXPIRED"}, {ID: "after them", Status: "FAILED"}} {
		u.tell(dead)
		if got := receive(t, told, 10*time.Second, "the hook is called"); got != dead {
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
func TestUndertakerWithASlowHook(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	entered, goOn := make(chan struct{}, maxFailuresQueued+10), make(chan struct{})
	var told []string // by the failure notifier's goroutine
	u := newFailureNotifier(func(ctx context.Context, dead Dead) {
		entered <- struct{}{}
		<-goOn
		if told = append(told, dead.ID); ctx.Err() != nil {
			t.Error("told with a context that has ended")
		}
	}, nil, slog.New(slog.NewTextHandler(&logged, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { u.run(ctx) })
	u.tell(Dead{ID: "0", Status: "FAILED"})
	receive(t, entered, 10*time.Second, "the hook is called")
	for i := range maxFailuresQueued + 3 { // the hook does not return: this must not wait for it
		u.tell(Dead{ID: fmt.Sprint(i + 1), Status: "EXPIRED", Outcome: taskdb.OutcomeExpired})
	}
	if n := strings.Count(logged.String(), "OnDead is too slow; a call is left out"); n != 3 ||
		!strings.Contains(logged.String(), fmt.Sprint("task=", maxFailuresQueued+3)) ||
		!strings.Contains(logged.String(), "outcome=EXPIRED") {
		t.Errorf("%d lines: %.300s", n, logged.String())
	}
	cancel()
	close(goOn)
	wg.Wait()
	if len(told) != maxFailuresQueued+1 {
		t.Errorf("told %d", len(told))
	}
	for i, id := range told {
		if id != fmt.Sprint(i) {
			t.Fatalf("told %s as number %d", id, i)
		}
	}
}

// A hook that waits for its context does not keep the node from stopping; what it has not been told by then is logged.
func TestUndertakerWithAHookThatWaits(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	entered := make(chan struct{}, 3)
	u := newFailureNotifier(
		func(ctx context.Context, _ Dead) { entered <- struct{}{}; <-ctx.Done() }, nil,
		slog.New(slog.NewTextHandler(&logged, nil)),
	)
	u.grace = 50 * time.Millisecond
	for _, id := range []string{"a", "b", "c"} {
		u.tell(Dead{ID: id, Status: "FAILED"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { u.run(ctx); close(ended) }()
	receive(t, entered, 10*time.Second, "the hook is called")
	cancel()
	receive(t, ended, 10*time.Second, "it ends")
	if len(entered) != 0 || !strings.Contains(logged.String(), "task=b") ||
		!strings.Contains(logged.String(), "task=c") {
		t.Errorf("%d more calls, %s", len(entered), logged.String())
	}
}

func TestUndertakerWithoutAHook(t *testing.T) {
	t.Parallel()
	u := newFailureNotifier(nil, nil, testLogger())
	for range maxFailuresQueued + 1 {
		u.tell(Dead{ID: "a", Status: "FAILED"})
		u.tell(Dead{ID: "a", Status: "QUEUED"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.run(ctx)
}

// A lost attempt whose task runs again is no dead letter: nobody is to be woken for it.
func TestUndertakerTellsTheDeadFromTheLost(t *testing.T) {
	t.Parallel()
	var told []string // by the failure notifier's goroutine
	u := newFailureNotifier(func(_ context.Context, dead Dead) { told = append(told, fmt.Sprintf("dead %+v", dead)) },
		func(_ context.Context, lost Lost) { told = append(told, fmt.Sprintf("lost %+v", lost)) }, testLogger())
	for _, status := range []string{"QUEUED", "FAILED", "CANCELLED"} {
		u.tell(Dead{
			ID: "a", Type: "JOB", Outcome: taskdb.OutcomeLost, Status: status, Revision: 7, Attempt: 5,
			Error: "node 3 died",
		})
	}
	u.tell(Dead{ID: "b", Outcome: taskdb.OutcomeExpired, Status: "EXPIRED"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.run(ctx)
	want := []string{
		"lost {ID:a Type:JOB Status:QUEUED Revision:7 Attempt:5 Error:node 3 died}",
		"dead {ID:a Type:JOB Outcome:LOST Status:FAILED Revision:7 Attempt:5 Error:node 3 died}",
		"lost {ID:a Type:JOB Status:CANCELLED Revision:7 Attempt:5 Error:node 3 died}",
		"dead {ID:b Type: Outcome:EXPIRED Status:EXPIRED Revision:0 Attempt:0 Error:}",
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

func TestDeadOf(t *testing.T) {
	t.Parallel()
	h := taskdb.Claim{ID: "a", Fence: 9, Revision: 7, Attempt: 5}
	got := deadOf(taskdb.Lost(h, "its node is gone"), taskdb.SettleResult{Status: "QUEUED", Type: "JOB"})
	if want := (Dead{
		ID: "a", Type: "JOB", Outcome: "LOST", Status: "QUEUED", Revision: 7, Attempt: 5, Error: "its node is gone",
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := deadOf(completed(h), taskdb.SettleResult{Status: "COMPLETED", Type: "JOB"}); got.Error != "" {
		t.Errorf("got %+v", got)
	}
}
