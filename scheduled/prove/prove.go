// Package prove shows the engine's promises at work: nodes in processes of their own run some thousand tasks and are killed
// meanwhile, and SQL that anybody can run again counts what came of each task.
package prove

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
)

// ErrBroken is part of the error of a run in which a promise was broken.
var ErrBroken = errors.New("a promise was broken")

const (
	nodes = 3
	// How long a node is missing, as if something restarted it.
	replaceAfter = time.Second
	// How long nothing may come of the tasks that are left until they are taken for lost. More than a node's death and a lease take.
	patience  = 90 * time.Second
	stopLimit = 10 * time.Second
)

// Config says what is to be proven, and how it is disturbed.
type Config struct {
	// Server is a connection to the Postgres server whose role may create databases.
	Server *pgx.ConnConfig
	// Tasks is how many tasks are scheduled, and Over how long they are spread.
	Tasks int
	Over  time.Duration
	// KillEvery is how often a node is killed by itself; 0: never.
	KillEvery time.Duration
	// Kill kills a node for each value received, End ends it early: tasks that are not due yet are cancelled. Nil: nobody asks.
	Kill, End <-chan struct{}
	// Program is this program's executable; with Arguments it calls Child.
	Program   string
	Arguments []string
	// Say tells what happens, Show how it stands, each Every.
	Say   func(format string, args ...any)
	Show  func(Standing)
	Every time.Duration
	// Keep leaves the database there.
	Keep bool
}

// run is one proof.
type run struct {
	Config
	*throwaway.Database
	crew     *crew
	begin    time.Time // by the database's clock
	nextShow time.Duration
	feeding  sync.WaitGroup
	failures chan error
}

// Run schedules, kills, waits and verifies. With an error that is ErrBroken the result is whole, and says which promise it was.
func Run(ctx context.Context, config Config) (result Result, err error) {
	d, err := throwaway.Create(ctx, config.Server, "tasktable_prove_")
	if err != nil {
		return result, err
	}
	defer func() {
		if config.Keep {
			d.Pool.Close()
			return
		}
		err = errors.Join(err, d.Drop())
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Config: config, Database: d, failures: make(chan error, 1)}
	r.Say("database %s", d.Name)
	if _, err := d.Pool.Exec(ctx, tablesSQL); err != nil {
		return result, fmt.Errorf("make the tables of the proof: %w", err)
	}
	r.crew = newCrew(r)
	err = r.play(ctx)
	if err != nil {
		cancel(err) // kills the nodes, and ends what else goes on
	}
	r.feeding.Wait()
	r.crew.stop()
	if err != nil {
		return result, err
	}
	result, err = verify(ctx, d.Pool)
	result.Database, result.Kept = d.Name, config.Keep
	if err != nil {
		return result, err
	}
	if result.Verdicts[0].Found[0].Value == 0 {
		return result, errors.New("nothing is proven: it ended before a task was accepted")
	}
	return result, result.broken()
}

// play returns when nothing is left to be done.
func (r *run) play(ctx context.Context) error {
	if err := r.crew.start(ctx); err != nil {
		return err
	}
	if err := r.Scan(ctx, `SELECT clock_timestamp()`, nil, &r.begin); err != nil {
		return fmt.Errorf("ask the database's time: %w", err)
	}
	feeding, stopFeeding := context.WithCancel(ctx)
	defer stopFeeding()
	fed := make(chan struct{})
	r.feeding.Go(func() { r.report(feeding, r.feed(feeding)); close(fed) })
	r.feeding.Go(func() { r.report(feeding, r.cancelSome(feeding)) })
	early, err := r.disturb(ctx, fed)
	stopFeeding()
	r.feeding.Wait()
	if err != nil {
		return err
	}
	if early {
		r.Say("ends early: what is not due yet is cancelled")
		if err := r.cancelLater(ctx); err != nil {
			return err
		}
	}
	return r.settled(ctx)
}

// report hands a failure of what goes on beside the kills to disturb, unless it is only the end.
func (r *run) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case r.failures <- err:
	default: // there is one already
	}
}

// disturb kills nodes until the time is over and all tasks are scheduled, or somebody ends it early.
func (r *run) disturb(ctx context.Context, fed <-chan struct{}) (early bool, err error) {
	over := time.NewTimer(r.Over)
	defer over.Stop()
	show := time.NewTicker(r.Every)
	defer show.Stop()
	var kills <-chan time.Time
	if r.KillEvery > 0 {
		ticker := time.NewTicker(r.KillEvery)
		defer ticker.Stop()
		kills = ticker.C
	}
	var done <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case err := <-r.failures:
			return false, err
		case <-over.C:
			kills, done = nil, fed
		case <-done:
			return false, nil
		case <-r.End:
			return true, nil
		case <-kills:
			err = r.crew.kill(ctx)
		case <-r.Kill:
			err = r.crew.kill(ctx)
		case <-show.C:
			_, err = r.show(ctx)
			show.Reset(r.nextShow)
		}
		if err != nil {
			return false, err
		}
	}
}

// settled waits until all tasks have ended, for as long as some still do.
func (r *run) settled(ctx context.Context) error {
	show := time.NewTicker(r.Every)
	defer show.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for last := -1; ; {
		standing, err := r.show(ctx)
		if err != nil || standing.Waiting == 0 {
			return err
		}
		if standing.Waiting != last {
			last = standing.Waiting
			limit.Reset(patience)
		}
		show.Reset(r.nextShow)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-r.failures:
			return err
		case <-limit.C:
			r.Say("%d tasks are left, and none of them has ended for %s", standing.Waiting, patience)
			return nil // the verdict says which promise that breaks
		case <-show.C:
		}
	}
}

// broken names the promises that were not kept.
func (r Result) broken() error {
	var names []string
	for _, v := range r.Verdicts {
		if !v.Held {
			names = append(names, fmt.Sprintf("%s (%d times)", v.Promise, v.Broken))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBroken, strings.Join(names, "; "))
}
