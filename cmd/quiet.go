package cmd

import (
	"context"
	"os"
	"os/signal"
)

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
