// Package week writes a generated week of history of the example community into the demo's schema, so that a person
// sees lists, charts and pages that are full.
//
// Each task lives its life in memory first, as the engine and the verbs would have let it (life.go). Then all rows are
// written at once, with the triggers off. The rows are the same for the same seed and the same time, except for the
// secrets of keys.
package week

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// week is what is to be written.
type week struct {
	now, from  time.Time
	until      time.Time // the week's nodes end here, and live nodes go on
	random     *rand.Rand
	calendar   calendar
	nodes      []*node
	tasks      []*task
	changes    []*change
	executions []*execution
	causes     []cause
	numbers    []*number
	pauses     []pause
	events     []event
	posts      []*task
}

// ErrBusy says that a node is at work in the schema. The week would take its tasks away.
var ErrBusy = errors.New("a node works in this schema: stop it first")

// Fill empties the schema, and writes the week before now, by the database's clock. It changes nothing and returns an
// error that wraps ErrBusy while a node works in the schema. The schemas of the demo must have been migrated.
func Fill(ctx context.Context, pool *pgxpool.Pool, schema string, now time.Time, seed uint64) error {
	name, err := store.NewSchema(schema)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := clearSchema(ctx, tx, name); err != nil {
			return err
		}
		w := newWeek(now, seed)
		if err := w.registerNodes(ctx, tx, name); err != nil {
			return err
		}
		w.generate()
		return w.write(ctx, tx, name)
	})
	if err != nil {
		return fmt.Errorf("write a week of history: %w", err)
	}
	return analyze(ctx, pool, name)
}

func newWeek(now time.Time, seed uint64) *week {
	now = micros(now)
	w := &week{
		now: now, from: now.Add(-7 * 24 * time.Hour), until: now.Add(-3 * time.Second),
		random:   rand.New(rand.NewPCG(seed, 1)),
		calendar: calendarOf(now),
	}
	w.makeNodes()
	return w
}

func (w *week) generate() {
	w.recurring()
	w.usual()
	w.scenes()
	w.pauseScopes()
	w.tell()
}

// pause is a row of pauses.
type pause struct {
	number             *number
	scope, name        string
	endsAt, plannedEnd time.Time
	resumedBy, reason  string
}

func (w *week) pauseScopes() {
	c := w.calendar
	slow := c.mailThrows.Add(40 * time.Minute)
	w.pauses = []pause{
		{number: w.number(c.held), scope: "all", endsAt: c.freed, plannedEnd: c.freed.Add(20 * time.Minute),
			resumedBy: ops, reason: "the tables of members get an index"},
		{number: w.number(slow), scope: "queue", name: newsletterQueue, endsAt: slow.Add(2 * time.Hour),
			reason: "the mail provider is slow"},
		{number: w.number(w.now.Add(-4 * time.Hour)), scope: "queue", name: newsletterQueue,
			endsAt: w.now.Add(5 * time.Hour), reason: "the mail provider takes 500 mails an hour until tonight"},
	}
}
