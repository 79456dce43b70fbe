package scheduled

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// 10,000 is River's own limit for a queue.
const riverMostWorkers = 10000

// riverPollInterval is how often River looks for jobs of which it has not been told: it listens, and what it misses while its connection
// is broken the leader's nudge tells it a second later. Once a second, its default, would be half of all that an idle node asks of the
// database.
const riverPollInterval = 30 * time.Second

// newRiver makes the node's River client: a worker for each type, all of which hand their batches to work. River only
// carries: its retries, timeouts, leader and maintenance are off, since the table does what they are for.
func newRiver(
	config Config, pool *pgxpool.Pool, statements statements, number int64, clock *clock, quiet *quiet, heard func(error),
	work func(job riverJob, holds []hold), hooks ...rivertype.Hook,
) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	log := config.Logger.With("node", number)
	_, types := config.works()
	for _, name := range types {
		river.AddWorkerArgs(workers, batchArgs{kind: name}, &batchWorker{work: work, log: log})
	}
	queues := map[string]river.QueueConfig{}
	for queue, slots := range config.workingSlots() {
		// As many as there are slots: what waits beyond them stays in River, for whichever node has a slot first. A node that
		// fetched ahead would keep tasks waiting while others idle.
		queues[queue] = river.QueueConfig{MaxWorkers: min(slots, riverMostWorkers)}
	}
	if len(queues) == 0 || len(types) == 0 { // River does not start with nothing to do, and a node that works nothing may lead
		queues = map[string]river.QueueConfig{"nobody": {MaxWorkers: 1}}
		river.AddWorkerArgs(workers, batchArgs{kind: "tasktable_nobody"}, &batchWorker{work: work, log: log})
	}
	client, err := river.NewClient[pgx.Tx](newRiverDriver(pool, statements, quiet, heard, config.LookAhead), &river.Config{
		ID:                     clientID(number),
		Schema:                 config.Schema,
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
		Hooks: append(hooks, river.HookInsertBeginFunc(func(_ context.Context, params *rivertype.JobInsertParams) error {
			params.ScheduledAt = new(clock.now().Add(-backdate))
			params.CreatedAt = nil
			return nil
		})),
	})
	if err != nil {
		return nil, fmt.Errorf("make River client: %w", err)
	}
	return client, nil
}

// riverJob is what of a River job matters to the work.
type riverJob struct {
	id    int64
	queue string
	kind  string // the tasks' type
}

// batchWorker runs the batches of one type.
type batchWorker struct {
	river.WorkerDefaults[batchArgs]
	work func(job riverJob, holds []hold)
	log  *slog.Logger
}

// Work returns when each of the job's tasks has been settled or released, and the job removed; never an error: a job that River
// retried would carry fences that are gone.
func (w *batchWorker) Work(_ context.Context, job *river.Job[batchArgs]) error {
	holds, err := unpack(job.Args.Tasks)
	if err != nil {
		w.log.Error("River job is not one of ours; removed", "job", job.ID, "error", err)
	}
	w.work(riverJob{id: job.ID, queue: job.Queue, kind: job.Kind}, holds)
	return nil
}

// jobOf makes the River job that carries holds.
func jobOf(queue, kind string, priority int, holds []hold) river.InsertManyParams {
	last := time.Time{}
	for _, h := range holds {
		if h.Due.After(last) {
			last = h.Due
		}
	}
	metadata, _ := json.Marshal(batchMetadata{len(holds), last.UnixMicro()}) // a struct of two numbers always encodes
	return river.InsertManyParams{
		Args:       batchArgs{kind: kind, Tasks: pack(holds)},
		InsertOpts: &river.InsertOpts{Queue: queue, Priority: riverPriority(priority), Metadata: metadata, MaxAttempts: 1},
	}
}

// riverPriority maps a task's priority to River's four, of which 1 is the most urgent. The claim has ordered the tasks
// already; this only orders the few that wait in River at once.
func riverPriority(priority int) int {
	switch {
	case priority > 50:
		return 1
	case priority > 0:
		return 2
	case priority == 0:
		return 3
	default:
		return 4
	}
}

// atLeastWarn drops what River says at lower levels: each start and stop of each of its services.
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
