package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestFirstSignalEndsTheContextAndTheSecondCalls(t *testing.T) {
	for _, test := range []struct {
		signal syscall.Signal
		cause  string
	}{{syscall.SIGINT, "received SIGINT"}, {syscall.SIGTERM, "received SIGTERM"}, {syscall.SIGHUP, "received SIGHUP"}} {
		t.Run(test.cause, func(t *testing.T) {
			skipIfIgnored(t, test.signal)
			again := make(chan struct{}, 1)
			ctx, release := untilSignal(t.Context(), 0, func() { again <- struct{}{} })
			defer release()
			raise(t, test.signal)
			await(t, ctx.Done())
			if cause := context.Cause(ctx); cause == nil || cause.Error() != test.cause {
				t.Errorf("the cause is %v, want %s", cause, test.cause)
			}
			raise(t, test.signal)
			await(t, again)
		})
	}
}

func TestSignalSentTwiceAtOnceIsOne(t *testing.T) {
	signals, done, ended := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	called := false
	go func() {
		defer close(ended)
		watch(signals, done, time.Hour, cancel, func() { called = true })
	}()
	signals <- syscall.SIGTERM
	await(t, ctx.Done())
	signals <- syscall.SIGTERM
	close(done)
	await(t, ended)
	if called {
		t.Error("the second signal was taken for another one")
	}
}

// skipIfIgnored is for tests that nohup runs. The program then leaves SIGHUP ignored, too.
func skipIfIgnored(t *testing.T, s syscall.Signal) {
	t.Helper()
	if signal.Ignored(s) {
		t.Skipf("%v is ignored, as by nohup", s)
	}
}

func raise(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, event <-chan struct{}) {
	t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-event:
	case <-limit.C:
		t.Fatalf("did not happen within %s", waitLimit)
	}
}
