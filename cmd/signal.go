package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how close a second signal must follow to be the first one again: timeout(1) and some supervisors signal
// the process and its group, so it comes twice.
const sameSignal = 300 * time.Millisecond

// untilSignal returns a context that ends at the first signal to stop; its cause names the signal. At a second one it
// calls again, but not at one that follows within same. SIGHUP counts, so that a closed terminal does not leave the
// private Postgres behind.
func untilSignal(parent context.Context, same time.Duration, again func()) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go watch(signals, done, same, cancel, again)
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

func watch(signals <-chan os.Signal, done <-chan struct{}, same time.Duration, cancel context.CancelCauseFunc,
	again func()) {
	var first time.Time
	for {
		select {
		case received := <-signals:
			switch {
			case first.IsZero():
				first = time.Now()
				cancel(fmt.Errorf("received %s", name(received)))
			case time.Since(first) > same:
				again()
			}
		case <-done:
			return
		}
	}
}

// name is the signal's usual one; its String says "terminated" for a process that is just stopping.
func name(received os.Signal) string {
	switch received {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return received.String()
}
