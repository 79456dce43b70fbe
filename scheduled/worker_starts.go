package scheduled

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// longRun is how long an attempt runs before the node writes its start to its row. For shorter attempts only the
// history has the start, so that they cost no extra write.
const longRun = time.Second

// calls notes that the handler is called now.
func (r *run) calls(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt, r.called = at, time.Now()
}

// unwritten returns when the attempt started. ok is true if the attempt has run for long and its row does not show
// the start yet.
func (r *run) unwritten(now time.Time) (startedAt time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startedAt, !r.called.IsZero() && !r.written && now.Sub(r.called) >= longRun
}

// writeStarts writes the start and the node of attempts that have run for long to their rows. If an application has
// locked a row, the next look writes it.
func (k *leaseRenewer) writeStarts(ctx context.Context, runs []*run) error {
	now := time.Now()
	var holds []taskdb.Claim
	var starts []time.Time
	for _, r := range runs {
		if startedAt, ok := r.unwritten(now); ok {
			holds, starts = append(holds, r.Claim), append(starts, startedAt)
		}
	}
	if len(holds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	written, err := k.worker.statements.Start(ctx, k.worker.enginePool, k.worker.settler.node, holds, starts)
	if err != nil {
		return err
	}
	for _, fence := range written {
		if r := k.worker.byFence(fence); r != nil {
			r.mu.Lock()
			r.written = true
			r.mu.Unlock()
		}
	}
	return nil
}
