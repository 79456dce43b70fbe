package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
)

// printBadge is a variant that only the demo has.
type printBadge struct {
	MemberID string `json:"member_id"`
}

func (printBadge) TaskType() string  { return "PRINT_BADGE" }
func (p printBadge) TaskKey() string { return p.MemberID }

// headcount is the type of a task that used to be a cron script. It has no payload, and its handler is a plain
// function.
const headcount = "HEADCOUNT"

// variants are the demo's own types beside the community's, and the faults that the demo plays.
func (d *demo) variants() []handlers.Part {
	return []handlers.Part{
		handlers.Func(headcount, d.countHeads),
		handlers.HandleTx(d.printBadge),
		handlers.Use(d.slow, d.mailFailsOnce),
	}
}

func (d *demo) countHeads(ctx context.Context) error {
	if _, err := d.Pool.Exec(ctx, "SELECT count(*) FROM community.memberships WHERE community_id = $1",
		"club-"+d.run); err != nil {
		return fmt.Errorf("count heads: %w", err)
	}
	return nil
}

func (d *demo) printBadge(ctx context.Context, tx pgx.Tx, t *handlers.Task[printBadge]) error {
	var member bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM community.members WHERE id = $1)",
		t.Payload.MemberID).Scan(&member); err != nil {
		return fmt.Errorf("read member %s: %w", t.Payload.MemberID, err)
	}
	switch {
	case !member:
		return handlers.Permanent(errors.New("there is no such member"))
	case !d.paper.Load():
		return errors.New("the printer is out of paper")
	}
	return nil
}

// slow makes two runs take four seconds. The dinner's reminder leaves time to edit the event meanwhile. The slow head
// count makes the next one come too early.
func (d *demo) slow(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, e *handlers.Execution) error {
		if e.ID == d.reminderOf("dinner") && e.DueAt.Before(d.at(6)) || e.Type == headcount &&
			e.ScheduledAt.Equal(d.at(8)) {
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return next(ctx, e)
	}
}

// mailFailsOnce is a mail server on a bad day. The mails of an earlier run are not this run's.
func (d *demo) mailFailsOnce(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, e *handlers.Execution) error {
		if e.Type == "SEND_EMAIL" && e.TenantID == "club-"+d.run && e.Attempt == 1 {
			return errors.New("451 4.3.2 the mail server is not accepting messages just now")
		}
		return next(ctx, e)
	}
}
