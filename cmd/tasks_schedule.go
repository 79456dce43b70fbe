package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

const tasksScheduleHelp = `Schedules a task: makes it, or edits the one that has the id. The options say the whole of it: what none says
gets its default, also of a task that exists, and also the payload; only without --at an existing task keeps its time.
To move tasks and keep the rest: tasktable tasks reschedule. Outcomes: created, rescheduled (it waited, or runs and
will run again), rearmed (it had ended, and now waits for the new time), unchanged and finished, which write nothing.

The payload is JSON, @FILE or - for the standard input: an object, whose field "type" is the type of the task; --type
says it where the payload does not. Without a payload it is the type alone.

With --cron the task recurs: it never runs itself, each fire makes an occurrence of it. It needs --id.

` + momentHelp

const tasksScheduleExample = `  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks schedule --id task-SEND_EVENT_REMINDER-42 --payload @reminder.json --at "2027-05-01 16:00" --expiration 1h
  jq -n '{type: "LOG", message: "hi"}' | tasktable tasks schedule --payload - --output json
  tasktable tasks schedule --id nightly --type TOKEN_CLEANUP --cron "0 3 * * *" --cron-time-zone Europe/Berlin`

// tasksSchedule is the command tasks schedule.
type tasksSchedule struct {
	*client
	task          store.Task
	recurrence    store.Recurrence
	taskType      string
	payload       string
	at, ends      moment
	ifFinished    string
	overlap       string
	catchUp       string
	catchUpPaused string
}

func (p *program) tasksScheduleCommand() *cobra.Command {
	s := &tasksSchedule{client: p.client()}
	options := append(s.taskOptions(), s.recurrenceOptions()...)
	return p.bind(&cobra.Command{
		Use:     "schedule",
		Short:   "Schedules a task, or edits one that waits",
		Long:    tasksScheduleHelp,
		Example: tasksScheduleExample,
	}, append(options, s.options()...), func(command *cobra.Command) error {
		return s.opened(s.run, func() error { return s.check(command.InOrStdin()) })(command)
	})
}

func (s *tasksSchedule) taskOptions() []option {
	t := &s.task
	return []option{
		{flag: "type", value: "type", set: taskType(&s.taskType), complete: s.types, usage: "the type, where the payload does not say it"},
		{flag: "payload", value: "json", secret: true, set: verbatim(&s.payload), usage: "the payload: JSON, @FILE, or - for the standard input"},
		{flag: "id", value: "id", set: text(&t.ID, store.MaxIDBytes), complete: s.ids(), usage: "the id (default a new one)"},
		{flag: "at", value: "time", set: instantOf(&s.at), usage: "when it is due (default now; of an existing task the time it has)"},
		{flag: "queue", value: "name", set: queueName(&t.Queue), complete: s.queues,
			usage: "which nodes may run it (default " + store.DefaultQueue + ")"},
		{flag: "priority", value: "number", set: whole(&t.Priority, store.MinPriority, store.MaxPriority),
			usage: "the higher runs first (default 0)"},
		{flag: "expiration", value: "duration", set: duration(&t.Expiration, time.Microsecond, store.MaxExpiration),
			usage: "how long after its time it may still start (default for ever)"},
		{flag: "expected-execution-time", value: "duration",
			set:   duration(&t.ExpectedExecutionTime, time.Microsecond, store.MaxExpectedExecutionTime),
			usage: fmt.Sprintf("how long an attempt may take (default %s)", store.DefaultExpectedExecutionTime)},
		{flag: "max-attempts", value: "number", set: whole(&t.MaxAttempts, 1, store.MaxMaxAttempts),
			usage: fmt.Sprintf("how many attempts may fail before it is FAILED (default %d)", store.DefaultMaxAttempts)},
		{flag: "entity", value: "entity", set: text(&t.Entity, store.MaxIDBytes), usage: "what it is about, as event:42"},
		{flag: "tenant", value: "tenant", set: text(&t.TenantID, store.MaxIDBytes), usage: "whose task it is"},
		{flag: "jitter", value: "duration", set: duration(&t.Jitter, time.Microsecond, store.MaxJitter),
			usage: "due up to so much later, always the same (default none)"},
		{flag: "retention", value: "duration", set: duration(&t.Retention, time.Microsecond, store.MaxRetention),
			usage: "how long it is kept when it has ended (default as the nodes say)"},
		{flag: "if-finished", value: "choice", set: choice(&s.ifFinished, "rearm", "keep"), complete: words("rearm", "keep"),
			usage: "of a task that has ended: rearm runs it again now if --at is missing, keep never does (default: again if the time differs)"},
	}
}

func (s *tasksSchedule) recurrenceOptions() []option {
	r := &s.recurrence
	policies := []string{string(store.CatchUpLatest), string(store.CatchUpAll), string(store.CatchUpNone)}
	overlaps := []string{string(store.OverlapSkip), string(store.OverlapAllow), string(store.OverlapCancelRunning)}
	return []option{
		{flag: "cron", value: "expression", set: text(&r.Cron, 256),
			usage: "makes it recur: 5 fields, 6 with seconds first, @daily and its like, or \"@every 90s\""},
		{flag: "cron-time-zone", value: "zone", set: text(&r.TimeZone, 64), usage: "the zone whose clocks the expression means (default UTC)"},
		{flag: "overlap", value: "policy", set: choice(&s.overlap, overlaps...), complete: words(overlaps...),
			usage: "a fire while an earlier occurrence has not ended: " + strings.Join(overlaps, ", ") + " (default skip)"},
		{flag: "catch-up", value: "policy", set: choice(&s.catchUp, policies...), complete: words(policies...),
			usage: "fires missed while no node was there: " + strings.Join(policies, ", ") + " (default latest)"},
		{flag: "catch-up-paused", value: "policy", set: choice(&s.catchUpPaused, policies...), complete: words(policies...),
			usage: "fires missed while paused: " + strings.Join(policies, ", ") + " (default none)"},
		{flag: "catch-up-limit", value: "number", set: whole(&r.CatchUpLimit, 1, store.MaxCatchUpLimit),
			usage: fmt.Sprintf("how many fires all makes up for (default %d)", store.DefaultCatchUpLimit)},
		{flag: "ends-at", value: "time", set: instantOf(&s.ends), usage: "the last instant at which it may fire (default never)"},
		{flag: "max-occurrences", value: "number", set: whole(&r.MaxOccurrences, 1, 1000000),
			usage: "after how many occurrences it ends (default never)"},
	}
}

func verbatim(into *string) func(string) error {
	return func(given string) error {
		*into = given
		return nil
	}
}

// check makes the task of the options. Only its times are still to be read once more, by the database's clock.
func (s *tasksSchedule) check(stdin io.Reader) (err error) {
	if s.task.Payload, err = s.payloadOf(stdin); err != nil {
		return err
	}
	s.task.IfFinished = store.IfFinished(s.ifFinished)
	s.recurrence.Overlap = store.Overlap(s.overlap)
	s.recurrence.CatchUp, s.recurrence.CatchUpPaused = store.CatchUp(s.catchUp), store.CatchUp(s.catchUpPaused)
	recurs := s.recurrence.Cron != ""
	switch {
	case !recurs && (s.recurrence != store.Recurrence{} || s.ends != ""):
		return usage("--cron is missing: --cron-time-zone, --overlap, --catch-up…, --ends-at and --max-occurrences are for a task that recurs")
	case recurs && s.task.ID == "":
		return usage("--id is missing: a task that recurs needs one")
	case recurs:
		s.task.Recurrence = &s.recurrence
	}
	if err := s.times(s.printing.clock()); err != nil {
		return err
	}
	return s.task.Check()
}

func (s *tasksSchedule) times(c clock) (err error) {
	if s.task.At, err = c.option("at", s.at); err != nil {
		return err
	}
	s.recurrence.EndsAt, err = c.option("ends-at", s.ends)
	return err
}

// typed is a payload that was given as JSON, with the type apart.
type typed struct {
	name string
	body json.RawMessage
}

func (t typed) TaskType() string             { return t.name }
func (t typed) MarshalJSON() ([]byte, error) { return t.body, nil }

func (s *tasksSchedule) payloadOf(stdin io.Reader) (store.Payload, error) {
	body, err := s.content(stdin)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, usage("--payload must be a JSON object%s", reason(err))
	}
	name := s.taskType
	if name == "" {
		name = store.JSON(body).TaskType()
	}
	if name == "" {
		return nil, usage("--type is missing, and the payload has no field type that says it")
	}
	return typed{name, body}, nil
}

// reason is where JSON is wrong, and never what it is: a payload may hold what nobody else should see.
func reason(err error) string {
	if wrong := new(json.SyntaxError); err != nil && errors.As(err, &wrong) {
		return fmt.Sprintf(": it is wrong at byte %d", wrong.Offset)
	}
	return ""
}

func (s *tasksSchedule) content(stdin io.Reader) ([]byte, error) {
	from := stdin
	switch path, isFile := strings.CutPrefix(s.payload, "@"); {
	case s.payload == "":
		return []byte("{}"), nil
	case isFile:
		file, err := os.Open(path)
		if err != nil {
			return nil, usage("--payload: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	case s.payload != "-":
		return []byte(s.payload), nil
	}
	const most = 4 * store.MaxPayloadBytes // it may be indented
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return nil, usage("--payload: %w", err)
	}
	if len(body) > most {
		return nil, usage("--payload must be at most %d bytes", most)
	}
	return body, nil
}

// scheduledTask is what came of it.
type scheduledTask struct {
	store.Receipt
	Status      store.Status `json:"status"`
	ScheduledAt time.Time    `json:"scheduled_at"`
}

func (s *tasksSchedule) run(ctx context.Context) error {
	if err := s.times(s.clock); err != nil {
		return err
	}
	var done scheduledTask
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if done.Receipt, err = s.tasks.Schedule(ctx, tx, s.task); err != nil {
			return err
		}
		row, err := s.tasks.Get(ctx, tx, done.ID)
		done.Status, done.ScheduledAt = row.Status, row.ScheduledAt
		return err
	})
	if err != nil {
		return err
	}
	t := newTable("ID", "OUTCOME", "STATUS", "SCHEDULED AT")
	t.add(done.ID, done.Outcome, done.Status, s.when(&done.ScheduledAt))
	if err := s.one(done, t); err != nil {
		return err
	}
	if done.Status == store.StatusQueued {
		s.warnOfUnknownType(ctx)
	}
	return nil
}

// warnOfUnknownType notes that no node runs the type, which most often is a typing mistake. The task is scheduled: its node may be yet
// to come. Not every database role may read which nodes there are; then there is no note.
func (s *tasksSchedule) warnOfUnknownType(ctx context.Context) {
	nodes, err := s.tasks.Nodes(ctx, s.pool, store.NodeFilter{})
	if err != nil {
		return
	}
	name := s.task.Payload.TaskType()
	var types []string
	live := false
	for _, node := range nodes {
		if node.State == store.NodeSilent || node.State == store.NodeEnded {
			continue
		}
		live = true
		types = append(types, node.Types...)
	}
	switch near := nearest(name, types); {
	case slices.Contains(types, name):
	case !live:
		s.note("Warning: no node is running, so the task waits.")
	case near != "":
		s.note("Warning: no running node has a handler for type %s, so the task waits; did you mean %s?", name, near)
	default:
		s.note("Warning: no running node has a handler for type %s, so the task waits.", name)
	}
}
