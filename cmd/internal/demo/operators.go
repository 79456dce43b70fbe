package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// letters is the queue of messages that go by post. It has a slot of its own.
const letters = "letters"

// operators are the steps of those who run the application.
func (d *demo) operators() []step {
	return []step{
		{0, "a head count, every 3 seconds from +2 s, 4 times (and the third is slow)", d.countRegularly},
		{0, "a message at +3 s, and one that is to disappear at +4 s", d.messages},
		{0, "badges for the host, the guest and somebody who never joined, at +1 s (and the printer has no paper)",
			d.badges},
		{1, "the message is paused until +6 s", d.pauseMessage},
		{4, "what has failed for good?", d.listDead},
		{5.5, "there is paper again: what failed for want of it is retried", d.retryDead},
		{6, "the third badge is nobody's: archived", d.archiveDead},
		{7, "the queue of letters is paused: the post is on strike, a minute at most", d.pauseLetters},
		{8, "a letter is written", d.letter},
		{11, "the strike is over: the queue is resumed", d.resumeLetters},
		{12, "an operator will not wait for the recurring tasks: events' status now, expired messages now", d.runNow},
		{15, "plain SQL moves the hike by a day, deletes the concert and adds a talk, and forgets their reminders",
			d.drift},
		{16, "reconcile: what ought to be scheduled, by a query, compared and mended", d.reconcile},
	}
}

func (d *demo) schedule(ctx context.Context, tx pgx.Tx, tasks ...store.Task) error {
	_, err := d.tasks.ScheduleMany(ctx, tx, tasks)
	return err
}

// done wants an outcome, so that a step that did nothing does not pass unseen.
func done(want store.Outcome, receipt store.Receipt, err error) error {
	if err == nil && receipt.Outcome != want {
		return fmt.Errorf("task %s: %s instead of %s", receipt.ID, receipt.Outcome, want)
	}
	return err
}

func (d *demo) countRegularly(ctx context.Context, tx pgx.Tx) error {
	task := store.Cron(headcount, "@every 3s")
	task.ID, task.TenantID, task.At = "headcount-"+d.run, "club-"+d.run, d.at(2)
	task.Recurrence.MaxOccurrences = 4
	return d.schedule(ctx, tx, task)
}

func (d *demo) message(id string, second float64) store.Task {
	payload := contract.SendDirectMessage{From: "host-" + d.run, To: "guest-" + d.run, Text: "Bring a book."}
	return store.Task{ID: id + "-" + d.run, Payload: payload, At: d.at(second)}
}

const disappearingSQL = `INSERT INTO community.direct_messages (effect_key, sender, recipient, text, expires_at)
    VALUES ($1, $2, $3, 'Psst.', $4)`

func (d *demo) messages(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, disappearingSQL, "secret-"+d.run, "host-"+d.run, "guest-"+d.run, d.at(4)); err != nil {
		return err
	}
	return d.schedule(ctx, tx, d.message("message", 3))
}

func (d *demo) pauseMessage(ctx context.Context, tx pgx.Tx) error {
	receipt, err := d.tasks.PauseUntil(ctx, tx, "message-"+d.run, d.at(6))
	return done(store.Paused, receipt, err)
}

func (d *demo) badges(ctx context.Context, tx pgx.Tx) error {
	var tasks []store.Task
	for _, member := range []string{"host", "guest", "ghost"} {
		tasks = append(tasks, store.Task{Payload: printBadge{member + "-" + d.run}, At: d.at(1), MaxAttempts: 1,
			TenantID: "club-" + d.run})
	}
	return d.schedule(ctx, tx, tasks...)
}

// dead is the dead letters of this run.
func (d *demo) dead() inspect.Filter {
	filter := inspect.DeadLetters()
	filter.Type, filter.TenantID = "PRINT_BADGE", "club-"+d.run
	return filter
}

func (d *demo) listDead(ctx context.Context, tx pgx.Tx) error {
	rows, err := d.inspector.List(ctx, tx, d.dead())
	for _, row := range rows {
		fmt.Fprintf(d.Out, "%10s%-24s %-16s %-12s %s\n", "", row.Type, d.name(row.ID), row.Status, *row.Message)
	}
	return err
}

func (d *demo) retryDead(ctx context.Context, tx pgx.Tx) error {
	d.paper.Store(true)
	filter := d.dead()
	filter.Message = "out of paper"
	_, err := d.inspector.Do(ctx, tx, inspect.Action{Verb: inspect.Retry}, inspect.Targets{Filter: &filter})
	return err
}

func (d *demo) archiveDead(ctx context.Context, tx pgx.Tx) error {
	receipt, err := d.tasks.Archive(ctx, tx, store.IDOf(printBadge{"ghost-" + d.run}), "never joined")
	return done(store.Archived, receipt, err)
}

// pauseLetters has a limit, so that a demo that is broken off leaves nothing paused.
func (d *demo) pauseLetters(ctx context.Context, tx pgx.Tx) error {
	_, err := d.tasks.PauseScope(ctx, tx, store.Queue(letters), d.at(67), "strike of club-"+d.run)
	return err
}

func (d *demo) letter(ctx context.Context, tx pgx.Tx) error {
	letter := d.message("letter", 8)
	letter.Queue = letters
	return d.schedule(ctx, tx, letter)
}

func (d *demo) resumeLetters(ctx context.Context, tx pgx.Tx) error {
	_, err := d.tasks.ResumeScope(ctx, tx, store.Queue(letters))
	return err
}

func (d *demo) runNow(ctx context.Context, tx pgx.Tx) error {
	for _, id := range []string{"community-status-update", "community-message-expiry"} {
		receipt, err := d.tasks.RunNow(ctx, tx, id)
		if err := done(store.Queued, receipt, err); err != nil {
			return err
		}
	}
	return nil
}

const (
	driftMovedSQL = `UPDATE community.events SET starts_at = starts_at + interval '24 hours',
    starts_local = starts_local + interval '24 hours' WHERE id = $1`
	driftGoneSQL = `DELETE FROM community.events WHERE id = $1`
	driftNewSQL  = `
INSERT INTO community.events (id, community_id, title, starts_at, starts_local, time_zone, repeat_days,
    reminder_before, publish_at, published_at)
SELECT $1, community_id, 'The talk', starts_at, starts_local, time_zone, repeat_days, reminder_before, publish_at,
    published_at
FROM community.events WHERE id = $2`
)

func (d *demo) drift(ctx context.Context, tx pgx.Tx) error {
	var batch pgx.Batch
	batch.Queue(driftMovedSQL, d.eventID("hike"))
	batch.Queue(driftGoneSQL, d.eventID("concert"))
	batch.Queue(driftNewSQL, d.eventID("talk"), d.eventID("hike"))
	return tx.SendBatch(ctx, &batch).Close()
}

// remindersSQL yields the tasks that the community's Event.tasks makes in Go.
const remindersSQL = `
SELECT id AS key, jsonb_build_object('event_id', id) AS payload, 'event:' || id AS entity, community_id AS tenant_id,
    starts_at - reminder_before AS scheduled_at, CASE WHEN repeat_days = 0 THEN reminder_before END AS expiration
FROM community.events WHERE id LIKE '%%-%s'`

// reconcile runs twice. The second run must find nothing.
func (d *demo) reconcile(ctx context.Context, tx pgx.Tx) error {
	config := store.ReconcileConfig{Type: "SEND_EVENT_REMINDER", Query: fmt.Sprintf(remindersSQL, d.run), Apply: true}
	report, err := d.tasks.Reconcile(ctx, tx, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "%s;\n\n", config.Query)
	if err := term.PrintReconcile(d.Out, report); err != nil {
		return err
	}
	if report, err = d.tasks.Reconcile(ctx, tx, config); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "And once more: %s\n\n", term.ReconcileSummary(report))
	return nil
}

// clear cancels the reminders that an earlier run left waiting, because reconcile would count them as orphans. A query
// that yields no task makes orphans of all.
func (d *demo) clear(ctx context.Context) error {
	return pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error {
		_, err := d.tasks.Reconcile(ctx, tx, store.ReconcileConfig{
			Type: "SEND_EVENT_REMINDER", Query: "SELECT '' AS key, now() AS scheduled_at WHERE false", Apply: true,
			Timeout: time.Minute})
		return err
	})
}
