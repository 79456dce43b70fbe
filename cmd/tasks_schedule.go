package cmd

import (
	"cmp"
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
	"github.com/tasktable/tasktable/store/form"
)

const tasksScheduleHelp = `Schedules a task: makes it, or edits the task that has the id. The options describe the whole
task. A field without an option gets its default, even if the task exists. This holds for the payload too. Only the
time of an existing task stays if --at is missing. To move tasks and keep their other fields, use tasktable tasks
reschedule. Outcomes: created, rescheduled (it waited, or runs and will run again), rearmed (it had ended, and now
waits for the new time), unchanged and finished. The last two write nothing.

The payload is a JSON object. Give it as JSON, as @FILE, or as - for the standard input. Its field "type" is the type
of the task. If the payload has no such field, give --type. Without --payload the payload contains only the type.

A task of --if-dead is a JSON object with the fields that the HTTP API takes in if_dead: payload, and optionally id,
scheduled_at, priority, queue, expiration, expected_execution_time, max_attempts, backoff, timeout, deadline,
entity, group_key, if_finished, jitter and retention. Durations are in seconds. Give it as JSON or as @FILE.
The option may be given 10 times.

With --cron the task recurs. It never runs itself. Instead, each fire makes an occurrence of it. It needs --id.
--every, --from, --out-of, --keep-to and --move write options behind the expression. Without --cron, --out-of, --keep-to
and --move write --days, which moves --at to a day that is in, in the zone --cron-time-zone.

` + term.MomentHelp

const tasksScheduleExample = `  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks schedule --payload @reminder.json --id task-SEND_EVENT_REMINDER-42 --at "2027-05-01 16:00"
  jq -n '{type: "LOG", message: "hi"}' | tasktable tasks schedule --payload - --output json
  tasktable tasks schedule --id nightly --type TOKEN_CLEANUP --cron "0 3 * * *" --cron-time-zone Europe/Berlin
  tasktable tasks schedule --id invoices --type INVOICE --cron "0 9 L * *" --keep-to workdays --move previous
  tasktable tasks schedule --type LOG --at 2027-12-25 --keep-to workdays --move next`

// tasksSchedule is the command tasks schedule.
type tasksSchedule struct {
	*client
	task     store.Task
	taskType string
	given    map[string]string // the texts of the fields, by their names
	days     dayOptions
	from     string
}

func (p *program) tasksScheduleCommand() *cobra.Command {
	s := &tasksSchedule{client: p.client(), given: map[string]string{}}
	opts := []options.Option{
		{Flag: form.Type.Input, Kind: "type", Set: taskType(&s.taskType), Complete: s.types, Usage: usageOf(form.Type)},
	}
	for _, field := range form.Fields {
		opts = append(opts, s.option(field))
	}
	opts = append(opts, s.days.options(s.client)...)
	opts = append(opts, options.Option{Flag: "from", Kind: "date", Set: options.Text(&s.from, 10),
		Usage: "with --every: the day from which it counts, such as 2027-01-05"})
	opts = append(opts, options.Option{Flag: "replace", Set: options.Bool(&s.task.Replace),
		Usage: "also if it makes a recurring task a plain one, or the other way"})
	return p.Bind(&cobra.Command{
		Use:     "schedule",
		Short:   "Schedules a task, or edits one that waits",
		Long:    tasksScheduleHelp,
		Example: tasksScheduleExample,
	}, append(opts, s.options()...), s.opened(s.run, s.check))
}

// option is the option of a field. It checks the text, but check reads it, because only then are now and the zone
// known.
func (s *tasksSchedule) option(field form.Field) options.Option {
	option := fieldOption(field, func(text string) error {
		s.given[field.Name] = text
		return field.Read(&store.Task{}, text, form.Clock{Now: time.Now(), Zone: time.UTC})
	})
	switch field.Kind {
	case form.Payload, form.Tasks: // check reads them, because they may be in files
		option.Secret, option.Repeatable = true, field.Kind == form.Tasks
		option.Usage += map[form.Kind]string{form.Payload: "; JSON, @FILE, or - for the standard input",
			form.Tasks: "; JSON or @FILE, and may be given several times"}[field.Kind]
		option.Set = func(text string) error {
			s.given[field.Name] = text
			return nil
		}
	case form.Choice:
		option.Complete = options.Words(field.Words...)
	case form.Text:
		option.Complete = map[string]options.Completion{"id": s.ids(), "queue": s.queues}[field.Name]
	case form.Number, form.Length, form.Time:
	}
	return option
}

// fieldOption is the option of a field.
func fieldOption(field form.Field, set func(string) error) options.Option {
	kind := cmp.Or(valueNames[field.Kind], textNames[field.Name], field.Input)
	return options.Option{Flag: field.Input, Kind: kind, Usage: usageOf(field), Set: set}
}

// valueNames and textNames name the values of options in the help.
var (
	valueNames = map[form.Kind]string{form.Number: "number", form.Length: "duration", form.Time: "time",
		form.Choice: "choice", form.Payload: "json", form.Tasks: "json"}
	textNames = map[string]string{"queue": "name", "cron": "expression", "time_zone": "zone"}
)

// usageOf is the help of a field, in the style of an option's: one clause after the other.
func usageOf(field form.Field) string {
	var clauses []string
	for clause := range strings.SplitSeq(field.Help, ". ") {
		clauses = append(clauses, strings.ToLower(clause[:1])+clause[1:])
	}
	usage := strings.Join(clauses, "; ")
	if field.Kind == form.Choice {
		usage += "; one of " + strings.Join(field.Words, ", ")
	}
	if field.Default != "" {
		usage += " (default " + field.Default + ")"
	}
	return usage
}

// check makes the task from the options. run reads its times once more, by the database's clock.
func (s *tasksSchedule) check() (err error) {
	body, err := s.content(s.command.InOrStdin())
	if err != nil {
		return err
	}
	if s.task.Payload, err = store.Typed(s.taskType, body); err != nil {
		return wrongOption(err)
	}
	if s.given["if_dead"], err = ifDeadText(s.given["if_dead"]); err != nil {
		return err
	}
	if err := s.writeDays(); err != nil {
		return err
	}
	if err := s.read(s.printing.clock()); err != nil {
		return err
	}
	if s.task.Recurrence != nil && s.task.ID == "" {
		return options.Usage("--id is missing: a task that recurs needs one")
	}
	return s.task.Check()
}

// wrongOption is an error of package store or form, which begins with the name of the option.
func wrongOption(err error) error {
	return options.Usage("--%s", strings.TrimPrefix(err.Error(), store.ErrInvalid.Error()+": "))
}

// read reads the texts of all fields but the payload, and checks them together.
func (s *tasksSchedule) read(c term.Clock) error {
	for _, field := range form.Fields {
		text, given := s.given[field.Name]
		if !given || field.Kind == form.Payload {
			continue
		}
		if err := field.Read(&s.task, text, form.Clock{Now: c.Now, Zone: c.Zone}); err != nil {
			if field.Kind == form.Tasks { // it may be secret
				return options.Usage("--%s: %w", field.Input, err)
			}
			return options.Usage("--%s %w, got %q", field.Input, err, text)
		}
	}
	if err := form.Check(&s.task); err != nil {
		return wrongOption(err)
	}
	return nil
}

// reason says where JSON is wrong. It never quotes the JSON, because a payload may be secret.
func reason(err error) string {
	if wrong := new(json.SyntaxError); err != nil && errors.As(err, &wrong) {
		return fmt.Sprintf(": it is wrong at byte %d", wrong.Offset)
	}
	return ""
}

func (s *tasksSchedule) content(stdin io.Reader) ([]byte, error) {
	payload := s.given["payload"]
	path, isFile := strings.CutPrefix(payload, "@")
	switch {
	case isFile:
		return contentOfFile("payload", path)
	case payload == "-":
		return contentOf("payload", stdin)
	}
	return []byte(payload), nil
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

// ifDeadText is the value of --if-dead with the content of each @FILE in the place of its name. A repeated option
// arrives as one text with commas between its values, so the end of an object is where its JSON ends. Errors do not
// quote the text, because a payload may be secret.
func ifDeadText(given string) (string, error) {
	var tasks []string
	for rest := given; rest != ""; rest = strings.TrimPrefix(strings.TrimSpace(rest), ",") {
		if path, isFile := strings.CutPrefix(rest, "@"); isFile {
			path, rest, _ = strings.Cut(path, ",")
			body, err := contentOfFile("if-dead", path)
			if err != nil {
				return "", err
			}
			tasks = append(tasks, string(body))
			continue
		}
		var one json.RawMessage
		decoder := json.NewDecoder(strings.NewReader(rest))
		if err := decoder.Decode(&one); err != nil {
			return "", options.Usage("--if-dead: task %d must be a JSON object%s", len(tasks)+1, reason(err))
		}
		tasks, rest = append(tasks, string(one)), rest[decoder.InputOffset():]
	}
	return strings.Join(tasks, ","), nil
}
