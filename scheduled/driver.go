package scheduled

import (
	"context"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// riverDriver is River's own driver for pgx, with four changes. The fetch is our own. A quiet node fetches nothing. River completes no jobs,
// because the worker removes each job itself when the outcomes of its tasks are recorded. What waits for the server has
// time limits.
type riverDriver struct {
	*riverpgxv5.Driver
	quiet   *quiet
	fetcher fetcher
}

// GetExecutor returns the executor that River's own statements go by.
func (d *riverDriver) GetExecutor() riverdriver.Executor {
	return &riverExecutor{d.Driver.GetExecutor(), d.quiet, d.fetcher}
}

// GetListener returns the connection on which River hears of new jobs.
func (d *riverDriver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &riverListener{d.Driver.GetListener(params)}
}

type riverExecutor struct {
	riverdriver.Executor
	quiet   *quiet
	fetcher fetcher
}

// JobGetAvailable fetches jobs, unless the node is quiet. The leader's nudge has River fetch the remaining jobs once
// the node is no longer quiet. River itself would wait for the answer for ever. Where the answer is lost although the
// server did the fetch, the keeper releases the claims.
func (e *riverExecutor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	if e.quiet.on() {
		return &riverdriver.JobGetAvailableResult{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return e.fetcher.fetch(ctx, params)
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
