package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is the time within which a second signal counts as the first one. timeout(1) and some supervisors signal
// the process and its group, so that it gets the signal twice.
const sameSignal = 300 * time.Millisecond

// untilSignal returns a context that ends at the first signal to stop. Its cause names the signal. A second signal
// calls again, unless it follows within same. SIGHUP counts, so that a closed terminal does not leave the private
// Postgres behind.
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

// name is the signal's usual name. Its String says "terminated" of a process that is just stopping.
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

// quietSignals receives the signals that make a node quiet and end that. It does so for the whole run, because by
// default SIGTSTP would stop the process with its running handlers.
func quietSignals() (signals <-chan os.Signal, release func()) {
	taken := make(chan os.Signal, 4)
	if quietSignal != nil {
		signal.Notify(taken, quietSignal, unquietSignal)
	}
	return taken, func() { signal.Stop(taken) }
}

// followSignals makes a node quiet as the signals say, until ctx is done. SIGCONT, which ends being quiet, also
// continues a process that SIGSTOP has stopped.
func followSignals(ctx context.Context, signals <-chan os.Signal, quiet, unquiet func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case received := <-signals:
			if received == quietSignal {
				quiet()
			} else {
				unquiet()
			}
		}
	}
}
