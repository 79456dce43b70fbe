package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

const scheduleSQL = selectReceipt + `schedule(
    payload => $1::text::jsonb, scheduled_at => $2::text::timestamptz, id => $3::text, priority => $4::text::int,
        queue => $5::text,
    expiration => $6::text::interval, expected_execution_time => $7::text::interval, max_attempts => $8::text::int,
    tenant_id => $9::text, entity => $10::text, if_finished => $11::text, scheduled_by => $12::text,
        wake => $13::text::boolean,
    jitter => $14::text::interval, retention => $15::text::interval, cron => $16::text, time_zone => $17::text,
        overlap => $18::text,
    catch_up => $19::text, catch_up_paused => $20::text, catch_up_limit => $21::text::int,
        ends_at => $22::text::timestamptz,
    max_occurrences => $23::text::int, trace => $24::text, if_dead => $25::text::jsonb,
    if_running => $26::text, replace => $27::text::boolean,
    former_payloads => $28::text::jsonb, group_key => $29::text, backoff => $30::text, timeout => $31::text::interval,
    deadline => $32::text::timestamptz, defaults => $33::text::boolean,
    delay => $34::text::interval, debounce => $35::text::interval, unique_for => $36::text::interval,
    if_exists => $37::text)`

// Schedule creates the task, or updates the task that has its id. The outcome is Created, Rescheduled, Rearmed,
// RunsAgain, Unchanged, Duplicate or Finished. The last three write nothing, so scheduling the same task again is
// cheap. If a field is invalid, Schedule returns an error that wraps ErrInvalid, and does not ask the database.
//
// If the span of ctx is sampled, it is stored with each change that Schedule writes. The spans of the task's
// executions link to it (see scheduled.Config.Tracer).
func (s *Store) Schedule(ctx context.Context, db DB, task Task) (Receipt, error) {
	wire, err := s.wire(ctx, task)
	if err != nil {
		return Receipt{}, fmt.Errorf("schedule: %w", err)
	}
	if task.Days != nil || task.Recurrence != nil {
		tasks, err := s.withCalendars(ctx, db, []Task{task})
		if err != nil {
			return Receipt{}, fmt.Errorf("schedule: %w", err)
		}
		if task.Days != nil {
			wire.ScheduledAt = new(tasks[0].At.UTC().Format(time.RFC3339Nano))
		}
	}
	ifDead, err := list("if_dead", wire.IfDead)
	if err != nil {
		return Receipt{}, fmt.Errorf("schedule: %w", err)
	}
	former, err := list("former_payloads", wire.Former)
	if err != nil {
		return Receipt{}, fmt.Errorf("schedule: %w", err)
	}
	receipt, err := query.One[Receipt](ctx, s.source, db, "schedule task "+wire.ID, scheduleSQL,
		string(wire.Payload), wire.ScheduledAt, wire.ID, nonZero(wire.Priority), wire.Queue, wire.Expiration,
		wire.ExpectedExecutionTime,
		nonZero(wire.MaxAttempts), wire.TenantID, wire.Entity, wire.IfFinished, s.author(), s.wake(soon(task)),
		wire.Jitter, wire.Retention,
		wire.Cron, wire.TimeZone, wire.Overlap, wire.CatchUp, wire.CatchUpPaused, digits(wire.CatchUpLimit),
		wire.EndsAt, digits(wire.MaxOccurrences),
		wire.Trace, ifDead, wire.IfRunning, strconv.FormatBool(wire.Replace), former, wire.GroupKey,
		wire.Backoff, wire.Timeout, wire.Deadline, strconv.FormatBool(wire.Defaults == nil), wire.Delay,
		wire.Debounce, wire.UniqueFor, wire.IfExists)
	if err == nil && receipt.Outcome == Duplicate && task.IfExists == Reject {
		err = fmt.Errorf("schedule task %s: %w", wire.ID, ErrDuplicate)
	}
	return receipt, err
}

// list returns a list as JSON, and nil for an empty one.
func list[T any](name string, all []T) (*string, error) {
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // most tasks have none
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return new(string(encoded)), nil
}

// wire returns the task in the form that goes to the database: checked, encoded, and with the span of ctx.
func (s *Store) wire(ctx context.Context, task Task) (wireTask, error) {
	if s.source.Err != nil {
		return wireTask{}, s.source.Err
	}
	wire, err := task.wire()
	if err == nil && s.config.Codec != nil {
		err = wire.encodeAll(ctx, s.config.Codec, task)
	}
	wire.Trace = check.OrNil(TraceOf(ctx))
	return wire, err
}

const scheduleManySQL = selectReceipt + `schedule_many($1::text::jsonb, $2::text, $3::text::boolean, $4::text)
ORDER BY position`

// ScheduleMany schedules all tasks in one statement. It returns their receipts in the order of the tasks. If one task
// is invalid, none is scheduled. Of two tasks with the same id, the later one wins. Every bulk call
// locks its rows in one order, so that calls that share tasks do not deadlock.
func (s *Store) ScheduleMany(ctx context.Context, db DB, tasks []Task) ([]Receipt, error) {
	return s.scheduleMany(ctx, db, tasks, "schedule")
}

func (s *Store) scheduleMany(ctx context.Context, db DB, tasks []Task, verb string) ([]Receipt, error) {
	wires, err := s.wires(ctx, db, tasks)
	if err != nil {
		return nil, fmt.Errorf("schedule many: %w", err)
	}
	return s.scheduleWires(ctx, db, wires, slices.ContainsFunc(tasks, soon), verb)
}

// scheduleWires schedules all tasks in one statement. near tells whether one of them is due soon.
func (s *Store) scheduleWires(ctx context.Context, db DB, wires []wireTask, near bool, verb string) ([]Receipt, error) {
	if len(wires) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(wires)
	if err != nil {
		return nil, fmt.Errorf("encode %d tasks: %w", len(wires), err)
	}
	doing := fmt.Sprintf("schedule %d tasks", len(wires))
	return query.Collect[Receipt](ctx, s.source, db, doing, scheduleManySQL, string(encoded), s.author(), s.wake(near),
		verb)
}

// The cancelled tasks have no position, so they come last.
const syncSQL = selectReceipt + `sync($1::text, $2::text::jsonb, $3::text, $4::text::boolean) WITH ORDINALITY
ORDER BY position, ordinality`

// Sync makes the waiting and running tasks of an entity exactly the given ones. It schedules each given task, with
// the entity filled in, and cancels the other tasks of the entity. It does not cancel the occurrences of a recurring
// task that is given, nor follow-ups, because handlers have asked for those. It returns the receipts of the given
// tasks in their order, and after them those of the cancelled tasks.
//
// Each task needs an ID or a Keyed payload, because with a new id at each Sync, the next Sync would cancel it.
//
// Like Schedule, Sync queues a given task again that is cancelled, even if an operator has cancelled it. Pause the
// task instead to keep it from running.
//
// Two Syncs of one entity wait for each other. In a REPEATABLE READ transaction with an older snapshot, the second
// Sync does not see the tasks that the first one made. Use READ COMMITTED or SERIALIZABLE.
//
// Sync locks one of 1,024 groups of entities until the transaction ends. Therefore a Sync of another entity of the
// same group waits, too. Keep transactions that sync many entities short, or commit after every hundred entities. Two
// transactions that sync several entities each may deadlock. Postgres then ends one of them with SQLSTATE 40P01, and
// the application can repeat it.
func (s *Store) Sync(ctx context.Context, db DB, entity string, tasks ...Task) ([]Receipt, error) {
	if err := check.Text("entity", entity); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	if entity == "" {
		return nil, fmt.Errorf("sync: %w", check.Invalid("entity", "must be 1 to 512 bytes without control characters",
			"an empty one"))
	}
	for _, task := range tasks {
		if task.Entity != "" && task.Entity != entity {
			return nil, fmt.Errorf("sync: %w", check.Invalid("entity",
				fmt.Sprintf("must be %q or empty in each task", entity), fmt.Sprintf("%q", task.Entity)))
		}
		if task.IfExists != "" || task.UniqueFor != 0 {
			return nil, fmt.Errorf("sync: %w", check.Invalid("if_exists",
				"and unique_for must be empty, because Sync makes the tasks exactly these", "one"))
		}
		if _, keyed := task.Payload.(Keyed); !keyed && task.ID == "" {
			return nil, fmt.Errorf("sync: %w", check.Invalid("id",
				"must be given for each task, or the payload must be Keyed",
				fmt.Sprintf("none for a %T", task.Payload)))
		}
	}
	wires, err := s.wires(ctx, db, tasks)
	if err != nil {
		return nil, fmt.Errorf("sync entity %s: %w", entity, err)
	}
	encoded, err := json.Marshal(wires)
	if err != nil {
		return nil, fmt.Errorf("sync entity %s: encode %d tasks: %w", entity, len(tasks), err)
	}
	return query.Collect[Receipt](ctx, s.source, db, "sync entity "+entity, syncSQL, entity, string(encoded),
		s.author(), s.wake(slices.ContainsFunc(tasks, soon)))
}

const rescheduleSQL = selectReceipt + `reschedule($1::text, $2::text::timestamptz, $3::text, $4::text::boolean)`

// Reschedule moves a task to another time and changes nothing else. The outcome is Rescheduled, Rearmed, Unchanged,
// Finished or Absent.
func (s *Store) Reschedule(ctx context.Context, db DB, id string, at time.Time) (Receipt, error) {
	if err := check.ID(id); err != nil {
		return Receipt{}, fmt.Errorf("reschedule: %w", err)
	}
	if at.IsZero() {
		return Receipt{}, fmt.Errorf("reschedule: %w", check.Invalid("scheduled_at", "must be given", "the zero time"))
	}
	text, err := check.TimeText("scheduled_at", at)
	if err != nil {
		return Receipt{}, fmt.Errorf("reschedule: %w", err)
	}
	return query.One[Receipt](ctx, s.source, db, "reschedule task "+id, rescheduleSQL, id, text, s.author(),
		s.wake(soon(Task{At: at})))
}

// wires checks and encodes each task.
func (s *Store) wires(ctx context.Context, db DB, tasks []Task) ([]wireTask, error) {
	wires := make([]wireTask, len(tasks))
	for i, task := range tasks {
		wire, err := s.wire(ctx, task)
		if err != nil {
			return nil, fmt.Errorf("task %d of %d: %w", i+1, len(tasks), err)
		}
		if task.IfExists == Reject {
			return nil, fmt.Errorf("task %d of %d: %w", i+1, len(tasks), check.Invalid("if_exists",
				"must be keep, or empty, in a call for many tasks", `"reject"`))
		}
		wires[i] = wire
	}
	moved, err := s.withCalendars(ctx, db, tasks)
	for i := range moved {
		if tasks[i].Days != nil {
			wires[i].ScheduledAt = new(moved[i].At.UTC().Format(time.RFC3339Nano))
		}
	}
	return wires, err
}

// withCalendars returns the tasks with the times to which their Days move them. It refuses rules that calendars leave
// no day for. It asks the database only if a task names calendars.
func (s *Store) withCalendars(ctx context.Context, db DB, tasks []Task) ([]Task, error) {
	if err := s.checkCalendars(ctx, db, tasks); err != nil {
		return nil, err
	}
	return s.moveDays(ctx, db, tasks)
}

// nonZero is digits for a number of which 0 is none.
func nonZero(number int) *string {
	if number == 0 {
		return nil
	}
	return new(strconv.Itoa(number))
}

// digits returns a number as text, because every driver can bind text.
func digits(number *int) *string {
	if number == nil {
		return nil
	}
	return new(strconv.Itoa(*number))
}
