package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const tasksScheduleHelp = `Schedules a task: makes it, or edits the task that has the id. The options describe the whole
task. A field without an option gets its default, even if the task exists. This holds for the payload too. Only the
time of an existing task stays if --at is missing. To move tasks and keep their other fields, use tasktable tasks
reschedule. Outcomes: created, rescheduled (it waited, or runs and will run again), rearmed (it had ended, and now
waits for the new time), unchanged and finished. The last two write nothing.

The payload is a JSON object. Give it as JSON, as @FILE, or as - for the standard input. Its field "type" is the type
of the task. If the payload has no such field, give --type. Without --payload the payload contains only the type.

A task of --if-dead is a JSON object with the fields that the HTTP API takes in if_dead: payload, and optionally id,
scheduled_at, priority, queue, expiration, expected_execution_time, max_attempts, entity, if_finished, jitter and
retention. Durations are in seconds. Give it as JSON or as @FILE.

With --cron the task recurs. It never runs itself. Instead, each fire makes an occurrence of it. It needs --id.

` + term.MomentHelp

const tasksScheduleExample = `  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks schedule --payload @reminder.json --id task-SEND_EVENT_REMINDER-42 --at "2027-05-01 16:00"
  jq -n '{type: "LOG", message: "hi"}' | tasktable tasks schedule --payload - --output json
  tasktable tasks schedule --id nightly --type TOKEN_CLEANUP --cron "0 3 * * *" --cron-time-zone Europe/Berlin`

// tasksSchedule is the command tasks schedule.
type tasksSchedule struct {
	*client
	task          store.Task
	recurrence    store.Recurrence
	taskType      string
	payload       string
	at, ends      term.Moment
	ifFinished    string
	ifRunning     string
	ifDead        string
	overlap       string
	catchUp       string
	catchUpPaused string
}

func (p *program) tasksScheduleCommand() *cobra.Command {
	s := &tasksSchedule{client: p.client()}
	opts := append(s.taskOptions(), s.recurrenceOptions()...)
	return p.Bind(&cobra.Command{
		Use:     "schedule",
		Short:   "Schedules a task, or edits one that waits",
		Long:    tasksScheduleHelp,
		Example: tasksScheduleExample,
	}, append(opts, s.options()...), func(command *cobra.Command) error {
		return s.opened(s.run, func() error { return s.check(command.InOrStdin()) })(command)
	})
}

func (s *tasksSchedule) taskOptions() []options.Option {
	t := &s.task
	return []options.Option{
		{Flag: "type", Kind: "type", Set: taskType(&s.taskType), Complete: s.types,
			Usage: "the type, if the payload has no field type"},
		{Flag: "payload", Kind: "json", Secret: true, Set: verbatim(&s.payload),
			Usage: "the payload: JSON, @FILE, or - for the standard input"},
		{Flag: "id", Kind: "id", Set: options.Text(&t.ID, store.MaxIDBytes), Complete: s.ids(),
			Usage: "the id (default a new one)"},
		{Flag: "at", Kind: "time", Set: options.Moment(&s.at),
			Usage: "when it is due (default now; an existing task keeps its time)"},
		{Flag: "queue", Kind: "name", Set: queueName(&t.Queue), Complete: s.queues,
			Usage: "its queue; only nodes that work the queue run it (default " + store.DefaultQueue + ")"},
		{Flag: "priority", Kind: "number", Set: options.Int(&t.Priority, store.MinPriority, store.MaxPriority),
			Usage: "the higher runs first (default 0)"},
		{Flag: "expiration", Kind: "duration",
			Set:   options.Duration(&t.Expiration, time.Microsecond, store.MaxExpiration),
			Usage: "how long after its time it may still start (default for ever)"},
		{Flag: "expected-execution-time", Kind: "duration",
			Set:   options.Duration(&t.ExpectedExecutionTime, time.Microsecond, store.MaxExpectedExecutionTime),
			Usage: fmt.Sprintf("how long an attempt may take (default %s)", store.DefaultExpectedExecutionTime)},
		{Flag: "max-attempts", Kind: "number", Set: options.Int(&t.MaxAttempts, 1, store.MaxMaxAttempts),
			Usage: fmt.Sprintf("after this many failed attempts it is FAILED (default %d)", store.DefaultMaxAttempts)},
		{Flag: "entity", Kind: "entity", Set: options.Text(&t.Entity, store.MaxIDBytes),
			Usage: "the subject of the task, such as event:42"},
		{Flag: "tenant", Kind: "tenant", Set: options.Text(&t.TenantID, store.MaxIDBytes),
			Usage: "the owner of the task"},
		{Flag: "jitter", Kind: "duration", Set: options.Duration(&t.Jitter, time.Microsecond, store.MaxJitter),
			Usage: "makes it due later, by up to this; the delay depends on id and time alone (default none)"},
		{Flag: "retention", Kind: "duration", Set: options.Duration(&t.Retention, time.Microsecond, store.MaxRetention),
			Usage: "how long it is kept after its end (default as the nodes are configured)"},
		{Flag: "if-finished", Kind: "choice", Set: options.OneOf(&s.ifFinished, "rearm", "keep"),
			Complete: options.Words("rearm", "keep"),
			Usage: "for a task that has ended: rearm without --at runs it again now, keep never runs it again " +
				"(default: runs it again if the time differs)"},
		{Flag: "if-running", Kind: "choice", Set: options.OneOf(&s.ifRunning, string(store.Again)),
			Complete: options.Words(string(store.Again)),
			Usage: "for a task that runs and is unchanged: again runs it once more after this attempt " +
				"(default: leaves it as it is)"},
		{Flag: "if-dead", Kind: "json", Repeatable: true, Secret: true, Set: verbatim(&s.ifDead),
			Usage: fmt.Sprintf("a task to schedule if this one becomes FAILED or EXPIRED: JSON or @FILE; "+
				"may be given %d times", store.MaxIfDead)},
		{Flag: "replace", Set: options.Bool(&t.Replace),
			Usage: "also if it makes a recurring task a plain one, or the other way"},
	}
}

func (s *tasksSchedule) recurrenceOptions() []options.Option {
	r := &s.recurrence
	policies := []string{string(store.CatchUpLatest), string(store.CatchUpAll), string(store.CatchUpNone)}
	overlaps := []string{string(store.OverlapSkip), string(store.OverlapAllow), string(store.OverlapCancelRunning)}
	return []options.Option{
		{Flag: "cron", Kind: "expression", Set: options.Text(&r.Cron, 256),
			Usage: "makes it recur: 5 fields, 6 with seconds first, @daily and its like, or \"@every 90s\""},
		{Flag: "cron-time-zone", Kind: "zone", Set: options.Text(&r.TimeZone, 64),
			Usage: "the time zone of the expression (default UTC)"},
		{Flag: "overlap", Kind: "policy", Set: options.OneOf(&s.overlap, overlaps...),
			Complete: options.Words(overlaps...),
			Usage: "for a fire while an earlier occurrence has not ended: " + strings.Join(overlaps, ", ") +
				" (default skip)"},
		{Flag: "catch-up", Kind: "policy", Set: options.OneOf(&s.catchUp, policies...),
			Complete: options.Words(policies...),
			Usage: "for fires missed while no node was running: " + strings.Join(policies, ", ") +
				" (default latest)"},
		{Flag: "catch-up-paused", Kind: "policy", Set: options.OneOf(&s.catchUpPaused, policies...),
			Complete: options.Words(policies...),
			Usage:    "for fires missed during a pause: " + strings.Join(policies, ", ") + " (default none)"},
		{Flag: "catch-up-limit", Kind: "number", Set: options.Int(&r.CatchUpLimit, 1, store.MaxCatchUpLimit),
			Usage: fmt.Sprintf("how many missed fires --catch-up all runs at most (default %d)",
				store.DefaultCatchUpLimit)},
		{Flag: "ends-at", Kind: "time", Set: options.Moment(&s.ends),
			Usage: "the last instant at which it may fire (default never)"},
		{Flag: "max-occurrences", Kind: "number", Set: options.Int(&r.MaxOccurrences, 1, 1000000),
			Usage: "after how many occurrences it ends (default never)"},
	}
}

func verbatim(into *string) func(string) error {
	return func(given string) error {
		*into = given
		return nil
	}
}

// check makes the task from the options. run reads its times once more, by the database's clock.
func (s *tasksSchedule) check(stdin io.Reader) (err error) {
	if s.task.Payload, err = s.payloadOf(stdin); err != nil {
		return err
	}
	if s.task.IfDead, err = ifDeadTasks(s.ifDead); err != nil {
		return err
	}
	s.task.IfFinished, s.task.IfRunning = store.IfFinished(s.ifFinished), store.IfRunning(s.ifRunning)
	s.recurrence.Overlap = store.Overlap(s.overlap)
	s.recurrence.CatchUp, s.recurrence.CatchUpPaused = store.CatchUp(s.catchUp), store.CatchUp(s.catchUpPaused)
	recurs := s.recurrence.Cron != ""
	switch {
	case !recurs && (s.recurrence != store.Recurrence{} || s.ends != ""):
		return options.Usage("--cron is missing: --cron-time-zone, --overlap, --catch-up…, --ends-at and " +
			"--max-occurrences are for a task that recurs")
	case recurs && s.task.ID == "":
		return options.Usage("--id is missing: a task that recurs needs one")
	case recurs:
		s.task.Recurrence = &s.recurrence
	}
	if err := s.times(s.printing.clock()); err != nil {
		return err
	}
	return s.task.Check()
}

func (s *tasksSchedule) times(c term.Clock) (err error) {
	if s.task.At, err = options.Instant(c, "at", s.at); err != nil {
		return err
	}
	s.recurrence.EndsAt, err = options.Instant(c, "ends-at", s.ends)
	return err
}

// typed is a payload that was given as JSON, and its type.
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
		return nil, options.Usage("--payload must be a JSON object%s", reason(err))
	}
	name := s.taskType
	if name == "" {
		name = store.JSON(body).TaskType()
	}
	if name == "" {
		return nil, options.Usage("--type is missing, and the payload has no field type that says it")
	}
	return typed{name, body}, nil
}

// reason says where JSON is wrong. It never quotes the JSON, because a payload may be secret.
func reason(err error) string {
	if wrong := new(json.SyntaxError); err != nil && errors.As(err, &wrong) {
		return fmt.Sprintf(": it is wrong at byte %d", wrong.Offset)
	}
	return ""
}

func (s *tasksSchedule) content(stdin io.Reader) ([]byte, error) {
	path, isFile := strings.CutPrefix(s.payload, "@")
	switch {
	case s.payload == "":
		return []byte("{}"), nil
	case isFile:
		return contentOfFile("payload", path)
	case s.payload == "-":
		return contentOf("payload", stdin)
	}
	return []byte(s.payload), nil
}

// contentOfFile reads the file that an option names.
func contentOfFile(flag, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, options.Usage("--%s: %w", flag, err)
	}
	defer func() { _ = file.Close() }()
	return contentOf(flag, file)
}

func contentOf(flag string, from io.Reader) ([]byte, error) {
	const most = 4 * store.MaxPayloadBytes // it may be indented
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return nil, options.Usage("--%s: %w", flag, err)
	}
	if len(body) > most {
		return nil, options.Usage("--%s must be at most %d bytes", flag, most)
	}
	return body, nil
}
