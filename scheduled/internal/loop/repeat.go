// Package loop repeats work until a context is done.
package loop

import (
	"context"
	"time"
)

// Repeat calls do until ctx is done, the first time after the given pause. do returns the pause until the next time.
func Repeat(ctx context.Context, pause time.Duration, do func() (pause time.Duration)) {
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
