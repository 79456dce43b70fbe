// Package prove shows that the engine keeps its promises. Nodes in processes of their own run some thousand tasks,
// and are killed meanwhile. Then SQL that anybody can run again counts the outcomes of the tasks.
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

// ErrBroken is wrapped by the error of Run if a promise was broken.
var ErrBroken = errors.New("a promise was broken")

const (
	nodes = 3
	// replaceAfter is how long a killed node is missing, as if something restarted it.
	replaceAfter = time.Second
	// patience is how long the proof waits without the end of any task before it takes the remaining tasks for lost.
	// It is longer than a node's death and a lease together.
	patience  = 90 * time.Second
	stopLimit = 10 * time.Second
)

// Config says how many tasks the proof runs, and how it disturbs them. All fields are required, except KillEvery,
// Kill, End and Keep.
type Config struct {
	// Server are the settings of a connection to the Postgres server. Its role must be able to create databases.
	Server *pgx.ConnConfig
	// Tasks is how many tasks are scheduled, and Over how long they are spread.
	Tasks int
	Over  time.Duration
	// KillEvery is the time between two kills. 0 means that only Kill kills nodes.
	KillEvery time.Duration
	// Kill kills a node for each value received. End ends the proof early: it cancels the tasks that are not due yet.
	// Both may be nil.
	Kill, End <-chan struct{}
	// Program is the executable of this program. With Arguments it calls Child.
	Program   string
	Arguments []string
	// Say prints an event. Show prints the state, once in each Every.
	Say   func(format string, args ...any)
	Show  func(Standing)
	Every time.Duration
	// Keep leaves the database in place.
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

// Run schedules tasks, kills nodes, waits for the end of all tasks, and verifies the promises. If the error wraps
// ErrBroken, the result is complete, and says which promise was broken.
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
		cancel(err) // kills the nodes, and ends the other goroutines
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

// play runs the proof until all tasks have ended.
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

// report passes an error of a goroutine to disturb, unless ctx has ended.
func (r *run) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case r.failures <- err:
	default: // an earlier error waits already
	}
}

// disturb kills nodes until the time is over and all tasks are scheduled, or until somebody ends the proof early.
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

// settled waits until all tasks have ended. It gives up if no task has ended for the time of patience.
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
			return nil // the verdicts say which promise this breaks
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
