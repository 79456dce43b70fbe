package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says where and how much a bench measures. Server is required. Every other field has a default.
type Config struct {
	// Server are the settings of a connection to the Postgres server. Its role must be able to create databases.
	Server *pgx.ConnConfig
	// Tasks is how many tasks the bench runs. Default (0): Bench.Default.
	Tasks int
	// Rounds is how often a comparison is made. The medians count. Default (0): 3.
	Rounds int
	// Idle is how long the bench idle counts. Default (0): one minute.
	Idle time.Duration
	// Say prints the progress. Default (nil): nothing is printed.
	Say func(format string, args ...any)
	// Logger is the logger of the nodes. Default (nil): nothing is logged.
	Logger *slog.Logger
}

const defaultRounds = 3

func (c Config) withDefaults(tasks int) Config {
	c.Tasks = cmp.Or(c.Tasks, tasks)
	c.Rounds = cmp.Or(c.Rounds, defaultRounds)
	c.Idle = cmp.Or(c.Idle, time.Minute)
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Figure is one measured value.
type Figure struct {
	Name  string
	Value float64
	// Meaning is the unit of the value, and a description.
	Meaning string
}

// Result holds the figures of a bench. The bench has verified its work.
type Result struct {
	Bench    string
	Figures  []Figure
	Verified string // what the bench checked by SQL
}

func (r *Result) add(name string, value float64, meaning string) {
	r.Figures = append(r.Figures, Figure{name, value, meaning})
}

// Bench is one of the benches.
type Bench struct {
	Name    string
	Short   string // a description in one line
	Long    string // the help: its work and the meaning of its figures
	Default int    // the default of Config.Tasks; 0: the bench takes no number of tasks
	// Verified is what the bench checks by SQL.
	Verified string

	measure func(ctx context.Context, config Config, result *Result) error
}

// Run runs the bench.
func (b Bench) Run(ctx context.Context, config Config) (Result, error) {
	result := Result{Bench: b.Name, Verified: b.Verified}
	err := b.measure(ctx, config.withDefaults(b.Default), &result)
	return result, err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// quantile returns a quantile of sorted values, by the nearest rank.
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
