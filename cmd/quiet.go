package cmd

import (
	"context"
	"os"
	"os/signal"
)

// quietSignals takes the signals that make a node quiet, and no longer. It is for the whole of a run: by default
// SIGTSTP would stop the process, running handlers included, and nobody might ever send it a SIGCONT.
func quietSignals() (signals <-chan os.Signal, release func()) {
	taken := make(chan os.Signal, 4)
	if quietSignal != nil {
		signal.Notify(taken, quietSignal, unquietSignal)
	}
	return taken, func() { signal.Stop(taken) }
}

// followSignals has a node be quiet as the signals say, until ctx is done. The one that continues a process that was
// stopped by SIGSTOP is the same as the one that ends being quiet.
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
