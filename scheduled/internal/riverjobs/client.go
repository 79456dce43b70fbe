// Package riverjobs carries claimed tasks from the leader to the nodes, by River.
package riverjobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// River carries claimed tasks from the leader to the nodes, and does nothing else. The engine itself does the work of
// River's retries, timeouts and maintenance. All code that works around the client of River is in this file. Lost
// answers to fetches: worker/recheck.go (askPool). Jobs that nobody works: leader/janitor.go. The workarounds are:
//
//   - the queue "nobody", because River does not start without a queue and a worker
//   - backdated, because River would stamp jobs with this process's clock
//   - riverDriver, because River would wait for answers for ever, and would complete jobs
//   - fetchSQL, because River's own statement reads the index entries of all jobs that ever existed
//   - limited, because River has a limit for a queue and none for a kind
//   - JobSetStateIfRunningMany, because River's completer would end a job before its claims, 50 to 250 ms late. The
//     worker removes the job.

// maxRiverWorkers is River's own limit for a queue.
const maxRiverWorkers = 10000

// riverPollInterval is how often River looks for jobs of which nobody has told it. It can be long, because the leader
// takes back a job that nobody fetches for two seconds, and tells River of the next one. River misses a notification if
// its connection is broken at that moment. River's default is once a second. That would be half of all statements of an
// idle node.
const riverPollInterval = 30 * time.Second

// ClientConfig is what the River client needs to know of its node.
type ClientConfig struct {
	Pool       *pgxpool.Pool // the engine's
	Statements taskdb.Queries
	Number     int64 // of the node
	Clock      *session.Clock
	Slots      map[string]int // of the queues that the node works
	Types      []string       // that the node works
	TypeSlots  map[string]int // of those types that have a limit
	LookAhead  time.Duration
	Quiet      func() bool // whether the node is quiet
	Heard      func(error) // notes the error of each fetch, or nil
	Hooks      []rivertype.Hook
	Logger     *slog.Logger // River's
	Log        *slog.Logger // the node's
	// Work is Worker.Work.
	Work func(job Job, holds []taskdb.Claim)
}

// NewClient makes the node's River client. It has a worker for each type, all of which hand their batches to Work.
func NewClient(config ClientConfig) (*river.Client[pgx.Tx], error) {
	if len(config.Slots) == 0 || len(config.Types) == 0 {
		// River would not start, but a node without queues or types may still lead.
		config.Slots, config.Types = map[string]int{"nobody": 1}, []string{"tasktable_nobody"}
	}
	workers := river.NewWorkers()
	for _, name := range config.Types {
		river.AddWorkerArgs(workers, jobArgs{TaskType: name}, &batchWorker{work: config.Work, log: config.Log})
	}
	driver := newRiverDriver(config)
	queues := map[string]river.QueueConfig{}
	for queue, slots := range config.Slots {
		// River gets as many workers as there are slots. Further jobs wait in River for the node that has a slot
		// first. A node that fetched ahead would keep tasks waiting while other nodes idle.
		queues[queue] = river.QueueConfig{MaxWorkers: min(slots, maxRiverWorkers)}
	}
	for queue, kind := range driver.limited.types {
		queues[queue] = river.QueueConfig{MaxWorkers: min(config.TypeSlots[kind], maxRiverWorkers)}
	}
	client, err := river.NewClient[pgx.Tx](driver, &river.Config{
		ID:                     taskdb.ClientID(config.Number),
		Schema:                 config.Statements.Schema.String(),
		Logger:                 slog.New(atLeastWarn{config.Logger.Handler()}),
		Queues:                 queues,
		Workers:                workers,
		MaxAttempts:            1,
		JobTimeout:             -1,
		FetchCooldown:          time.Millisecond,
		FetchPollInterval:      riverPollInterval,
		FetchOnlyKnownKinds:    true,
		SkipUnknownJobCheck:    true,
		LeaderElectionDisabled: true,
		Hooks:                  append(config.Hooks, backdated(config.Clock)),
	})
	if err != nil {
		return nil, fmt.Errorf("make River client: %w", err)
	}
	return client, nil
}

// backdated gives each inserted job a past time, so that River treats it as due, and the database's time as that of its
// creation. The leader counts from then how long a job waits for a node. River would write this process's time.
func backdated(clock *session.Clock) river.HookInsertBeginFunc {
	return func(_ context.Context, params *rivertype.JobInsertParams) error {
		now := clock.Now()
		params.CreatedAt, params.ScheduledAt = &now, new(now.Add(-backdate))
		return nil
	}
}

// batchWorker runs the batches of one type.
type batchWorker struct {
	river.WorkerDefaults[jobArgs]
	work func(job Job, holds []taskdb.Claim)
	log  *slog.Logger
}

// Work never returns an error, because a job that River retried would carry fences that are gone.
func (w *batchWorker) Work(_ context.Context, job *river.Job[jobArgs]) error {
	holds, err := DecodeClaims(job.Args.Tasks)
	if err != nil {
		w.log.Error("River job is not one of ours; removed", "job", job.ID, "error", err)
	}
	one := Job{ID: job.ID, Queue: job.Queue, Kind: job.Kind}
	if len(holds) > 1 {
		var about Metadata
		_ = json.Unmarshal(job.Metadata, &about) // of a job that is not ours nobody knows the window
		one.Window, one.Serial = about.Window, about.Serial
	}
	w.work(one, holds)
	return nil
}

// atLeastWarn drops River's lines below the level warn. These report each start and stop of each of River's services.
type atLeastWarn struct{ slog.Handler }

func (h atLeastWarn) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h atLeastWarn) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeastWarn{h.Handler.WithAttrs(attrs)}
}

func (h atLeastWarn) WithGroup(name string) slog.Handler {
	return atLeastWarn{h.Handler.WithGroup(name)}
}

// riverDriver is River's own driver for pgx, with four changes. It fetches jobs by fetchSQL. A quiet node fetches
// none. River completes no jobs, because the worker removes each job itself when the outcomes of its tasks are
// recorded. Calls that wait for the server have time limits.
type riverDriver struct {
	*riverpgxv5.Driver
	executor riverExecutor
	limited  limited
}

func newRiverDriver(config ClientConfig) *riverDriver {
	driver := riverpgxv5.New(config.Pool)
	within := fetchWithin + max(config.LookAhead, 0)
	types := newLimited(config)
	return &riverDriver{driver, riverExecutor{driver.GetExecutor(), config, within, types}, types}
}

// GetExecutor returns the executor of River's own statements.
func (d *riverDriver) GetExecutor() riverdriver.Executor { return &d.executor }

// GetListener returns the connection on which River is notified of new jobs.
func (d *riverDriver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &riverListener{Listener: d.Driver.GetListener(params), limited: d.limited}
}

type riverExecutor struct {
	riverdriver.Executor
	config  ClientConfig
	within  time.Duration // how old a job may be to be fetched
	limited limited
}

// JobSetStateIfRunningMany does nothing. River's own would complete jobs. A job that still exists when its worker
// returns has a claim whose outcome is not recorded. It must stay, because the worker and the leader find the
// claim by this job.
func (e *riverExecutor) JobSetStateIfRunningMany(
	context.Context, *riverdriver.JobSetStateIfRunningManyParams,
) ([]*rivertype.JobRow, error) {
	return nil, nil
}

// pingLimit is how long River's listener waits for the answer to a ping. River pings every five seconds.
const pingLimit = 3 * time.Second

type riverListener struct {
	riverdriver.Listener
	limited limited
	more    []*riverdriver.Notification // to be returned before the listener waits again
}

// Ping limits the wait for an answer, so that River notices a connection that a firewall has forgotten. River itself
// would wait for ever, and would receive no notifications meanwhile.
func (l *riverListener) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return l.Listener.Ping(ctx)
}

const (
	// backdate is how far in the past the scheduled time of an inserted job is. River would stamp jobs with this
	// process's clock, and fetch them by the database's. A process clock that is ahead by a minute would delay each job
	// by a minute.
	backdate = time.Hour
	// A node fetches only jobs that are younger than fetchWithin plus the look-ahead. The leader takes back a job that
	// waits longer than maxUnfetched (leader/janitor.go), so no job is left behind.
	fetchWithin = 5 * time.Second
)

// fetchSQL reads a range of River's index for each priority. Each range begins at the bound on scheduled_at. A single
// range over all priorities would be read from its beginning. The statement uses statement_timestamp, because
// Postgres cannot search the index by a volatile function.
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
RETURNING j.id, j.queue, j.kind, j.args AS encoded_args, j.metadata, j.priority::int AS priority,
    j.attempt::int AS attempt, j.max_attempts::int AS max_attempts, j.state::text AS state, j.attempted_at,
    j.attempted_by, j.created_at, j.scheduled_at`

// JobGetAvailable fetches the waiting jobs, the most urgent first. It fetches none while the node is quiet.
//
// River's own statement reads the index entries of all jobs that ever existed. Postgres cannot remove these entries
// while somebody holds an old snapshot. River would also wait for the answer for ever. If the answer is lost although
// the server did the fetch, the worker releases the claims.
func (e *riverExecutor) JobGetAvailable(
	ctx context.Context, params *riverdriver.JobGetAvailableParams,
) (*riverdriver.JobGetAvailableResult, error) {
	if e.config.Quiet() {
		return &riverdriver.JobGetAvailableResult{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	statement, queue, kinds := e.limited.fetch(params.Queue, params.Kind)
	rows, err := e.config.Pool.Query(ctx, e.config.Statements.Schema.SQL(statement), queue, pg.OrEmpty(kinds),
		e.within+backdate, params.MaxToLock, params.ClientID)
	var jobs []*rivertype.JobRow
	if err == nil {
		jobs, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByNameLax[rivertype.JobRow])
	}
	if e.config.Heard(err); err != nil {
		return nil, pg.Annotate(err, "fetch jobs")
	}
	slices.SortFunc(jobs, func(a, b *rivertype.JobRow) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	return &riverdriver.JobGetAvailableResult{Jobs: jobs}, nil
}
