package scheduled

import (
	"context"
	"time"
)

// repeat calls do until ctx is done, the first time after the given pause. do returns the pause until the next time.
func repeat(ctx context.Context, pause time.Duration, do func() (pause time.Duration)) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(do())
		}
	}
}
