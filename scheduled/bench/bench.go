// Package bench measures the engine: each bench builds a database of its own on the server it is given, does its work there as a
// service would, verifies by SQL what came of it, and drops the database. What is compared runs side by side, in turns: on a machine
// that others use too, only such ratios mean something.
package bench

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says where and how much a bench measures.
type Config struct {
	// Server is a connection to the Postgres server whose role may create databases.
	Server *pgx.ConnConfig
	// Tasks is how many tasks the bench runs; 0: its own default.
	Tasks int
	// Rounds is how often a comparison is made; the medians count. 0: 3.
	Rounds int
	// Idle is how long the bench idle counts; 0: a minute.
	Idle time.Duration
	// Program is this program's executable, for benches that kill a process of their own; Arguments make it call Child.
	Program   string
	Arguments []string
	// Say tells of progress. Nil: nobody.
	Say func(format string, args ...any)
	// Logger of the nodes. Nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults(tasks int) Config {
	if c.Tasks == 0 {
		c.Tasks = tasks
	}
	if c.Rounds == 0 {
		c.Rounds = 3
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Figure is one measured value.
type Figure struct {
	Name  string
	Value float64
	// What it is, and in which unit.
	Meaning string
}

// Result is what a bench measured. It has been verified.
type Result struct {
	Bench    string
	Figures  []Figure
	Verified string // what was checked by SQL
}

func (r *Result) add(name string, value float64, meaning string) {
	r.Figures = append(r.Figures, Figure{name, value, meaning})
}

// Bench is one of the benches.
type Bench struct {
	Name    string
	Short   string // one line
	Long    string // what it does and what its figures mean
	Default int    // tasks; 0: it takes no number
	Run     func(ctx context.Context, config Config) (Result, error)
}

// All is the benches, in the order of a tour.
var All = []Bench{drainBench, preciseBench, herdBench, idleBench, crowdBench, scheduleBench, recoverBench, scaleBench, snapshotBench}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// quantile of sorted values, by the nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func failed(format string, args ...any) error {
	return fmt.Errorf("the bench's result is wrong: "+format, args...)
}
