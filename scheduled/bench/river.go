package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// riverArgs are the arguments of a River job that does the same work as a task of the bench.
type riverArgs struct {
	N int `json:"n"`
}

// Kind is the job's kind.
func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	ran *atomic.Int64
}

// Work does nothing.
func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	w.ran.Add(1)
	return nil
}

// river makes a client of River alone, whose jobs add to ran.
func (d *database) river(ran *atomic.Int64, settings *river.Config) (*river.Client[pgx.Tx], error) {
	settings.Workers = river.NewWorkers()
	river.AddWorker(settings.Workers, &riverWorker{ran: ran})
	settings.Schema, settings.Logger = "tasktable", slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(d.Pool), settings)
	if err != nil {
		return nil, fmt.Errorf("make River client: %w", err)
	}
	return client, nil
}

// riverWorkers are the numbers of workers that the bench tries. With more workers River fetches more jobs at once.
var riverWorkers = []int{100, 500, 2000}

// drainRiver measures River alone. It returns the rate with the best number of workers.
func drainRiver(ctx context.Context, config Config) (best float64, workers int, err error) {
	for _, most := range riverWorkers {
		rate, err := drainRiverWith(ctx, config, most)
		if err != nil {
			return 0, 0, err
		}
		if rate > best {
			best, workers = rate, most
		}
	}
	return best, workers, nil
}

// riversOwnSQL makes the two indexes that River's migrations make and Tasktable's migrations drop. River is measured as
// its users have it. Tasktable is measured without these indexes, because nothing of it reads them.
const riversOwnSQL = `
CREATE INDEX river_job_args_index ON tasktable.river_job USING GIN (args);
CREATE INDEX river_job_metadata_index ON tasktable.river_job USING GIN (metadata)`

// withinRiver is within, with the indexes that River's table has in River's own schema.
func withinRiver(ctx context.Context, config Config, do func(d *database) error) error {
	return within(ctx, config, func(d *database) error {
		if err := d.exec(ctx, riversOwnSQL); err != nil {
			return err
		}
		return do(d)
	})
}

const riverChunk = 5000 // jobs of one call

// riverJobs are jobs with the numbers from up to to. The zero time means now.
func riverJobs(from, to int, at func(i int) time.Time) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, to-from)
	for i := range jobs {
		jobs[i].Args = riverArgs{from + i}
		jobs[i].InsertOpts = &river.InsertOpts{ScheduledAt: at(from + i)}
	}
	return jobs
}

func drainRiverWith(ctx context.Context, config Config, most int) (rate float64, err error) {
	err = withinRiver(ctx, config, func(d *database) (err error) {
		var ran atomic.Int64
		client, err := d.river(&ran, &river.Config{
			Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most}},
			FetchCooldown: time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		})
		if err != nil {
			return err
		}
		for from := 0; from < config.Tasks; from += riverChunk {
			jobs := riverJobs(from, min(from+riverChunk, config.Tasks), func(int) time.Time { return time.Time{} })
			if _, err := client.InsertManyFast(ctx, jobs); err != nil {
				return fmt.Errorf("insert River jobs: %w", err)
			}
		}
		if err := d.exec(ctx, "VACUUM (ANALYZE) tasktable.river_job"); err != nil {
			return err
		}
		if err := d.quiet(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("start River: %w", err)
		}
		defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()
		for ran.Load() < int64(config.Tasks) {
			if err := pass(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if err := d.Until(ctx, time.Minute, "River has completed all jobs",
			`SELECT NOT EXISTS (SELECT 1 FROM tasktable.river_job
				WHERE state IN ('available', 'running'))`); err != nil {
			return err
		}
		rate = perSecond(config.Tasks, time.Since(began))
		return nil
	})
	return rate, err
}

// riverDelaysSQL reads the delays in milliseconds, sorted.
const riverDelaysSQL = `
SELECT (extract(epoch FROM attempted_at - scheduled_at) * 1000)::float8 FROM tasktable.river_job
WHERE state = 'completed' ORDER BY 1`

// preciseRiver measures how soon after their times River alone starts jobs that are scheduled ahead.
func preciseRiver(ctx context.Context, config Config, result *Result) error {
	return withinRiver(ctx, config, func(d *database) (err error) {
		client, err := d.river(new(atomic.Int64), &river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		})
		if err != nil {
			return err
		}
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("start River: %w", err)
		}
		defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()
		began := time.Now().Add(preciseAhead)
		jobs := riverJobs(0, config.Tasks, func(i int) time.Time { return began.Add(time.Duration(i) * preciseGap) })
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return fmt.Errorf("insert River jobs: %w", err)
		}
		length := preciseAhead + time.Duration(config.Tasks)*preciseGap
		config.Say("%d jobs of River alone are due within the next %s", config.Tasks, length)
		if err := d.Until(ctx, time.Minute+length, "River has completed all jobs", `SELECT NOT EXISTS (
			SELECT 1 FROM tasktable.river_job WHERE state <> 'completed')`); err != nil {
			return err
		}
		delays, err := pg.CollectColumn[float64](ctx, d.Pool, "read the delays of River", riverDelaysSQL)
		if err != nil {
			return err
		}
		if len(delays) != config.Tasks {
			return failed("River completed %d of %d jobs", len(delays), config.Tasks)
		}
		result.add("river_p50_ms", quantile(delays, 0.5), "ms, River alone, the median")
		result.add("river_p99_ms", quantile(delays, 0.99), "ms, River alone, 99 of 100")
		return nil
	})
}
