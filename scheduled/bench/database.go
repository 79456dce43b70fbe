package main

import (
	"context"
	"errors"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
)

// database is the database of one bench.
type database struct {
	groups groupsRunning
	*throwaway.Database
	group string // an SQL expression for the group of task n, which insert uses; "" if tasks have no group
}

// within runs a bench in a database of its own.
func within(ctx context.Context, config Config, do func(d *database) error) (err error) {
	d, err := throwaway.Create(ctx, config.Server, "tasktable_bench_")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Drop()) }()
	return do(&database{Database: d})
}
