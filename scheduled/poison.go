package scheduled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// failBroken finds the lanes whose head cannot be claimed, and fails those tasks where they stand. It returns how many.
func (l *leader) failBroken(ctx context.Context, lanes []laneBudget, fires []lane) (failed int, err error) {
	for _, one := range fires {
		lanes = append(lanes, laneBudget{lane: one})
	}
	for _, one := range lanes {
		one.Room = 1
		var broken head
		var why string
		err := l.transaction(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, enterSQL); err != nil {
				return fmt.Errorf("enter the engine's context: %w", err)
			}
			found, err := l.statements.lockHead(ctx, tx, one.lane, l.lookAhead(), l.setAside()...)
			if err != nil || found == nil {
				return err
			}
			err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				if one.Recurring {
					_, err := l.statements.fork(ctx, savepoint, nil, []lane{one.lane}, 1, l.setAside()...)
					return err
				}
				_, err := l.take(ctx, savepoint, []laneBudget{one}, 1)
				return err
			})
			if !isDataError(err) {
				return err
			}
			broken, why = *found, scrub("the task cannot be claimed: "+err.Error())
			return l.statements.failHead(ctx, tx, broken, why)
		})
		if why != "" && isDataError(err) {
			// A rule or a trigger of the application's lets nobody change the row.
			l.aside[broken.ID] = time.Now().Add(asideFor)
			failed++
			l.log.Error("task can neither be claimed nor failed; it is let be for a while", "task", broken.ID, "type", one.Type, "revision", broken.Revision,
				"error", why, "and", err, "until", l.aside[broken.ID])
			continue
		}
		if err != nil {
			return failed, err
		}
		if why != "" {
			failed++
			l.dead.tell(Dead{ID: broken.ID, Type: one.Type, Outcome: outcomeFailed, Status: string(store.StatusFailed), Revision: broken.Revision, Error: why})
			l.log.Error("task cannot be claimed and is failed", "task", broken.ID, "type", one.Type, "revision", broken.Revision, "error", why)
		}
	}
	return failed, nil
}

const asideFor = time.Minute

// setAside lists the tasks that are let be.
func (l *leader) setAside() []string {
	maps.DeleteFunc(l.aside, func(_ string, until time.Time) bool { return time.Now().After(until) })
	return slices.Collect(maps.Keys(l.aside))
}
