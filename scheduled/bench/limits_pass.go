package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// groupsRunning counts the handlers of each group that run at once.
type groupsRunning struct {
	mu      sync.Mutex
	running map[string]int
	most    int // that have run at once of one group
}

func (g *groupsRunning) around(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, e *handlers.Execution) error {
		if e.Group == "" {
			return next(ctx, e)
		}
		g.add(e.Group, 1)
		defer g.add(e.Group, -1)
		return next(ctx, e)
	}
}

func (g *groupsRunning) add(group string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = map[string]int{}
	}
	g.running[group] += n
	g.most = max(g.most, g.running[group])
}

// passTasks is how many tasks come one after the other while the passes are measured.
const passTasks = 300

// passMean returns how long the leader's passes take on average, in seconds, while plain tasks come one after the
// other.
func passMean(
	ctx context.Context, config Config, prepare func(context.Context, *database) error,
) (mean float64, err error) {
	err = withNode(ctx, config, func(d *database, n *node) error {
		if prepare != nil {
			if err := prepare(ctx, d); err != nil {
				return err
			}
			if err := d.Until(ctx, time.Minute, "the one task of the group runs", `SELECT count(*) = 1
				FROM tasktable.scheduled_tasks WHERE type = '`+heldType+`' AND status = 'EXECUTING'`); err != nil {
				return err
			}
		}
		if err := d.quiet(ctx); err != nil {
			return err
		}
		passes, took, err := n.passes()
		if err != nil {
			return err
		}
		for i := range passTasks {
			ran := n.ran.Load()
			if err := d.insert(ctx, fmt.Sprint("pass ", i), 1, "clock_timestamp()"); err != nil {
				return err
			}
			if err := n.finished(ctx, ran+1, time.Minute); err != nil {
				return err
			}
		}
		morePasses, moreTook, err := n.passes()
		if err == nil && morePasses < passes+passTasks/10 {
			err = failed("%d passes for %d tasks", morePasses-passes, passTasks)
		}
		mean = (moreTook - took) / float64(max(morePasses-passes, 1))
		return err
	})
	return mean, err
}

// passes returns how many passes the leader has made, and how long they took in all, in seconds.
func (n *node) passes() (count uint64, took float64, err error) {
	families, err := n.metrics.Gather()
	if err != nil {
		return 0, 0, fmt.Errorf("read metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() == "tasktable_pass_duration_seconds" {
			histogram := family.GetMetric()[0].GetHistogram()
			return histogram.GetSampleCount(), histogram.GetSampleSum(), nil
		}
	}
	return 0, 0, failed("the node has no metric of its passes")
}

// passRatio compares passes beside what held prepares with those on an empty table.
func passRatio(ctx context.Context, config Config, held func(context.Context, *database) error) (float64, error) {
	alone, err := passMean(ctx, config, nil)
	if err != nil {
		return 0, err
	}
	beside, err := passMean(ctx, config, held)
	return beside / alone, err
}
