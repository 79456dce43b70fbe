package scheduled

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// riverDriver is River's own driver for pgx, with four changes. Jobs are fetched by a statement of ours. A quiet node fetches none. River
// completes no jobs, because the worker removes each job itself when the outcomes of its tasks are recorded. Calls that wait for the
// server have time limits.
type riverDriver struct {
	*riverpgxv5.Driver
	executor riverExecutor
}

func newRiverDriver(pool *pgxpool.Pool, statements statements, quiet *quiet, heard func(error), lookAhead time.Duration) *riverDriver {
	driver := riverpgxv5.New(pool)
	return &riverDriver{driver, riverExecutor{driver.GetExecutor(), pool, statements, quiet, heard, fetchWithin + max(lookAhead, 0)}}
}

// GetExecutor returns the executor that River's own statements go by.
func (d *riverDriver) GetExecutor() riverdriver.Executor { return &d.executor }

// GetListener returns the connection on which River hears of new jobs.
func (d *riverDriver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &riverListener{d.Driver.GetListener(params)}
}

type riverExecutor struct {
	riverdriver.Executor
	pool       *pgxpool.Pool
	statements statements
	quiet      *quiet
	heard      func(error)   // notes what a fetch came to
	within     time.Duration // how long after it was inserted a job is fetched
}

// JobSetStateIfRunningMany would complete jobs. A job that still exists when its worker returns has a claim whose
// outcome is not recorded: it must stay, because the keeper and the leader find the claim by it.
func (e *riverExecutor) JobSetStateIfRunningMany(context.Context, *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	return nil, nil
}

// pingLimit is how long River's listener waits for the answer to a ping. River pings every five seconds.
const pingLimit = 3 * time.Second

type riverListener struct{ riverdriver.Listener }

// Ping notices a connection that a firewall has forgotten. River itself would wait for the answer for ever, and hear
// nothing meanwhile.
func (l *riverListener) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return l.Listener.Ping(ctx)
}
