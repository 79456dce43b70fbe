package scheduled

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

const (
	// backdate is how long before the leader inserts a job River takes it for scheduled. River would stamp jobs with
	// this process's clock, and fetch them by the database's: a clock that is ahead by a minute would delay each job by
	// a minute.
	backdate = time.Hour
	// fetchWithin is how long after it was inserted a job is fetched, besides the look-ahead. The leader takes a job
	// back that waits longer than unfetchedMax, so none is left behind.
	fetchWithin = 5 * time.Second
)

// Each priority is a range of River's index that begins at the bound on scheduled_at; a range over all priorities
// would be read from its beginning. statement_timestamp, because the index cannot be searched by a volatile function.
const fetchSQL = `
WITH picked AS MATERIALIZED (
    SELECT j.id
    FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS one (priority)
    JOIN tasktable.river_job AS j ON j.priority = one.priority
    WHERE j.state = 'available' AND j.queue = $1::text AND j.kind = ANY ($2::text[])
        AND j.scheduled_at >= statement_timestamp() - $3::interval
    ORDER BY j.priority, j.scheduled_at, j.id LIMIT $4::int FOR UPDATE OF j SKIP LOCKED
)
UPDATE tasktable.river_job AS j
SET state = 'running', attempt = j.attempt + 1, attempted_at = clock_timestamp(),
    attempted_by = array_append(j.attempted_by, $5::text)
WHERE j.id = ANY (ARRAY(SELECT picked.id FROM picked))
RETURNING j.id, j.queue, j.kind, j.args, j.metadata, j.priority::int AS priority, j.attempt::int AS attempt,
    j.max_attempts::int AS max_attempts, j.attempted_at, j.created_at`

type fetchedRow struct {
	ID          int64
	Queue       string
	Kind        string
	Args        []byte
	Metadata    []byte
	Priority    int
	Attempt     int
	MaxAttempts int
	AttemptedAt time.Time
	CreatedAt   time.Time
}

// JobGetAvailable fetches the jobs that wait, the most urgent first. It fetches none while the node is quiet: the
// leader's nudge has River fetch the remaining jobs once the node is no longer quiet. River's own statement reads the
// index entries of all jobs that ever were. While somebody holds an old snapshot, Postgres cannot remove these
// entries. River would also wait for the answer for ever. Where the answer is lost although the server did the fetch,
// the keeper releases the claims.
func (e *riverExecutor) JobGetAvailable(
	ctx context.Context, params *riverdriver.JobGetAvailableParams,
) (*riverdriver.JobGetAvailableResult, error) {
	if e.quiet.on() {
		return &riverdriver.JobGetAvailableResult{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	fetched, err := e.fetch(ctx, params)
	if e.heard(err); err != nil {
		return nil, fmt.Errorf("fetch jobs: %w", err)
	}
	slices.SortFunc(fetched, func(a, b fetchedRow) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	result := &riverdriver.JobGetAvailableResult{}
	for _, row := range fetched {
		result.Jobs = append(result.Jobs, &rivertype.JobRow{
			ID: row.ID, Queue: row.Queue, Kind: row.Kind, EncodedArgs: row.Args, Metadata: row.Metadata,
			Priority: row.Priority, Attempt: row.Attempt, MaxAttempts: row.MaxAttempts, State: rivertype.JobStateRunning,
			AttemptedAt: &row.AttemptedAt, AttemptedBy: []string{params.ClientID},
			CreatedAt: row.CreatedAt, ScheduledAt: row.CreatedAt,
		})
	}
	return result, nil
}

func (e *riverExecutor) fetch(ctx context.Context, params *riverdriver.JobGetAvailableParams) ([]fetchedRow, error) {
	rows, err := e.pool.Query(
		ctx, e.statements.schema.SQL(fetchSQL), params.Queue, notNil(params.Kind), e.within+backdate, params.MaxToLock, params.ClientID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[fetchedRow])
}
