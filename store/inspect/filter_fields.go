package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// FilterField is a field of a Filter, as people and programs give it. The API makes its parameters from the fields,
// the dashboard its inputs, and the command line its flags. So all three have the same fields, rules and words.
type FilterField struct {
	// Name is the field's name in addresses of the dashboard. A flag has - in the place of _.
	Name string
	// Parameter is its name in the API, and in errors.
	Parameter string
	Label     string // of its input
	Help      string // such as "only tasks of this type"
	Kind      Kind
	// Among are the statuses that a field of KindStatus takes.
	Among []store.Status
	// Often tells that people use the field often, so that a form shows it first.
	Often bool

	condition string // of the SQL; the field's text is the argument of its name
	place     func(*Filter) any
}

// Kind is a kind of value.
type Kind int

// The kinds of values.
const (
	KindText   Kind = iota // at most 512 bytes
	KindNote               // a text that people write, with several lines
	KindType               // the name of a type
	KindQueue              // the name of a queue
	KindID                 // the id of a task, or the beginning of one
	KindParent             // the id of a recurring task
	KindStatus             // one or several statuses, separated by commas
	KindTime
	KindOn     // true, or no value
	KindEither // true, false, or no value
	KindMatch  // a path in the payload and the text there: order_id=42
)

// MaxNote is the greatest length of a text that people write, in bytes.
const MaxNote = 4096

// filterFields has all fields. To add one, add it here and to Filter. A field that few tasks have, and that has an
// index, may get a way of its own, too.
var filterFields = []FilterField{
	{Name: "type", Label: "Type", Kind: KindType, Often: true, Help: "only tasks of this type",
		condition: `t.type = @type`,
		place:     func(f *Filter) any { return &f.Type }},
	{Name: "status", Label: "Status", Kind: KindStatus, Often: true, Among: store.Statuses(),
		Help:      "only tasks in this status, or in several separated by commas",
		condition: `t.status = ANY (string_to_array(@status, ','))`,
		place:     func(f *Filter) any { return &f.Statuses }},
	{Name: "queue", Label: "Queue", Kind: KindQueue, Often: true, Help: "only tasks in this queue",
		condition: `t.queue = @queue`,
		place:     func(f *Filter) any { return &f.Queue }},
	{Name: "id_prefix", Label: "Id begins with", Kind: KindID, Often: true,
		Help:      "only tasks whose id begins with this",
		condition: `t.id >= @id_prefix AND t.id < @id_prefix_end`,
		place:     func(f *Filter) any { return &f.IDPrefix }},
	{Name: "message", Label: "Message contains", Kind: KindNote, Often: true,
		Help:      "only tasks whose message, such as the last error, contains this",
		condition: `position(@message IN t.message) > 0`,
		place:     func(f *Filter) any { return &f.Message }},
	{Name: "entity", Label: "Entity", Help: "only tasks of this entity, such as event:42",
		condition: `t.entity = @entity`,
		place:     func(f *Filter) any { return &f.Entity }},
	{Name: "tenant", Parameter: "tenant_id", Label: "Tenant", Help: "only tasks of this tenant",
		condition: `t.tenant_id = @tenant`,
		place:     func(f *Filter) any { return &f.TenantID }},
	{Name: "group_key", Label: "Group", Help: "only tasks of this group, such as customer:42",
		condition: `t.group_key = @group_key`,
		place:     func(f *Filter) any { return &f.GroupKey }},
	{Name: "spawned_by", Label: "Follow-up of", Kind: KindID, Help: "only follow-ups of this task",
		condition: `t.spawned_by = @spawned_by`,
		place:     func(f *Filter) any { return &f.SpawnedBy }},
	{Name: "parent", Parameter: "parent_id", Label: "Occurrence of", Kind: KindParent,
		Help:      "only occurrences of this recurring task",
		condition: `t.parent_id = @parent`,
		place:     func(f *Filter) any { return &f.ParentID }},
	{Name: "pattern", Label: "Pattern of the message", Kind: KindNote,
		Help:      "only tasks whose message has this pattern, as groups of dead letters have it",
		condition: `tasktable.message_pattern(t.message) = @pattern`,
		place:     func(f *Filter) any { return &f.Pattern }},
	{Name: "payload", Label: "Payload has", Kind: KindMatch,
		Help: "only tasks whose payload has this text at this path, such as order_id=42 or items.0.sku=A1; it reads " +
			"the payloads of the tasks that the other filters leave, at most about 20000 of them, and finds nothing " +
			"in encrypted ones",
		condition: `t.payload::jsonb #>> string_to_array(split_part(@payload, '=', 1), '.')
        = substr(@payload, strpos(@payload, '=') + 1)`,
		place: func(f *Filter) any { return &f.Payload }},
	{Name: "scheduled_from", Label: "Scheduled from", Kind: KindTime,
		Help:      "only tasks scheduled for then or later",
		condition: `t.scheduled_at >= @scheduled_from::timestamptz`,
		place:     func(f *Filter) any { return &f.ScheduledFrom }},
	{Name: "scheduled_to", Label: "Scheduled before", Kind: KindTime,
		Help:      "only tasks scheduled for before then",
		condition: `t.scheduled_at < @scheduled_to::timestamptz`,
		place:     func(f *Filter) any { return &f.ScheduledTo }},
	{Name: "finished_from", Label: "Ended from", Kind: KindTime,
		Help:      "only tasks that have ended then or later",
		condition: `t.finished_at >= @finished_from::timestamptz`,
		place:     func(f *Filter) any { return &f.FinishedFrom }},
	{Name: "finished_to", Label: "Ended before", Kind: KindTime,
		Help:      "only tasks that have ended before then",
		condition: `t.finished_at < @finished_to::timestamptz`,
		place:     func(f *Filter) any { return &f.FinishedTo }},
	{Name: "archived", Label: "Archived", Kind: KindEither,
		Help:      "only archived dead letters if true, all other tasks if false",
		condition: `(t.archived_at IS NOT NULL) = @archived::boolean`,
		place:     func(f *Filter) any { return &f.Archived }},
	{Name: "waiting", Label: "Put off", Kind: KindOn,
		Help:      "only tasks that are put off because something, such as a host, is out of order",
		condition: isWaiting,
		place:     func(f *Filter) any { return &f.Waiting }},
}

// isWaiting is the condition of the index scheduled_tasks_put_off.
const isWaiting = `t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL`

// filterSQL begins the WHERE clause of each statement that takes a filter. In its place arguments.bind writes the
// conditions of the fields that are set, so that Postgres plans no others.
const filterSQL = `@filter`

// conditions are the conditions of the fields of a filter that have an argument.
func (a arguments) conditions() string {
	var conditions []string
	for _, field := range filterFields {
		if a[field.Name] != "" {
			conditions = append(conditions, field.condition)
		}
	}
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}

// FilterFields returns the fields by which tasks are selected, in the order of a form.
func FilterFields() []FilterField {
	fields := slices.Clone(filterFields)
	for i := range fields {
		if fields[i].Parameter == "" {
			fields[i].Parameter = fields[i].Name
		}
	}
	return fields
}

// DeadLetterFields returns the fields by which dead letters are selected: those of tasks, without the ones that say
// which tasks are dead letters.
func DeadLetterFields() []FilterField {
	fields := slices.DeleteFunc(FilterFields(), func(f FilterField) bool {
		return f.Name == "archived" || f.Name == "waiting"
	})
	for i := range fields {
		if fields[i].Kind == KindStatus {
			fields[i].Among, fields[i].Help = deadStatuses(), "only FAILED or only EXPIRED dead letters"
		}
	}
	return fields
}

// Flag is the name of the field's flag, without the dashes.
func (f FilterField) Flag() string { return strings.ReplaceAll(f.Name, "_", "-") }

// Set reads the field from the texts that somebody has given, and sets it in the filter. Only a field of KindStatus
// takes several. Empty texts set nothing. at reads a time. The text of the error is the rule that a value breaks, such
// as "must be true or false".
func (f FilterField) Set(filter *Filter, given []string, at func(string) (time.Time, error)) (err error) {
	given = slices.DeleteFunc(slices.Clone(given), func(text string) bool { return text == "" })
	if len(given) == 0 {
		return nil
	}
	text, wrong := given[0], errors.New(f.Rule())
	switch place := f.place(filter).(type) {
	case *[]store.Status:
		for word := range strings.SplitSeq(strings.Join(given, ","), ",") {
			status := store.Status(strings.ToUpper(strings.TrimSpace(word)))
			if !slices.Contains(f.Among, status) {
				return wrong
			}
			if !slices.Contains(*place, status) {
				*place = append(*place, status)
			}
		}
		return nil
	case *time.Time:
		*place, err = at(text)
		return err
	case *string:
		*place = text
	case *bool:
		*place = text == "true"
	case **bool:
		*place = new(text == "true")
	}
	if !f.fits(text) {
		return wrong
	}
	return nil
}

// StatusWords lists statuses as words.
func StatusWords(statuses []store.Status) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", ", "), "[]")
}

// rules are what values of a kind must be.
var rules = map[Kind]string{
	KindType:   "must be 2 to 127 letters, digits or _-[]<>/.·:+",
	KindQueue:  "must be 1 to 64 of a-z, 0-9, inner - or _",
	KindNote:   "must be at most 4096 bytes of UTF-8 without NUL",
	KindText:   "must be at most 512 bytes of UTF-8 without control characters",
	KindID:     "must be at most 512 bytes of UTF-8 without control characters",
	KindParent: "must be at most 512 bytes of UTF-8 without control characters",
	KindMatch:  "must be a path and a text, such as order_id=42 or items.0.sku=A1, of at most 4096 bytes",
	KindOn:     "must be true or false",
	KindEither: "must be true or false",
}

// Rule says what a value must be, in the words of errors. It is "" for a time, which each surface reads in its own way.
func (f FilterField) Rule() string {
	if f.Kind == KindStatus {
		return "must be one or several of " + StatusWords(f.Among)
	}
	return rules[f.Kind]
}

// fits reports whether a text is as the rule says.
func (f FilterField) fits(text string) bool {
	isNote := len(text) <= MaxNote && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
	switch f.Kind {
	case KindType:
		return store.CheckType(text) == nil
	case KindQueue:
		return store.CheckQueue(text) == nil
	case KindNote:
		return isNote
	case KindMatch:
		path, _, found := strings.Cut(text, "=")
		return isNote && found && !slices.Contains(strings.Split(path, "."), "")
	case KindOn, KindEither:
		return text == "true" || text == "false"
	default:
		return check.Text("", text) == nil
	}
}

// checkField checks a text by the rule of the field that has this parameter. A text of another name may be any text.
func checkField(parameter, text string) error {
	for _, field := range FilterFields() {
		if field.Parameter == parameter && text != "" && !field.fits(text) {
			return check.Invalid(parameter, field.Rule(), fmt.Sprintf("%.100q", text))
		}
	}
	return check.Text(parameter, text)
}

// text returns the field as its condition takes it. It checks the field, because a text that Postgres refuses would
// abort the caller's transaction.
func (f FilterField) text(filter Filter) (text string, err error) {
	fits := true
	switch place := f.place(&filter).(type) {
	case *string:
		text, fits = *place, *place == "" || f.fits(*place)
	case *[]store.Status: // as one text, because every driver can bind text
		words := make([]string, len(*place))
		for i, status := range *place {
			fits = fits && slices.Contains(f.Among, status)
			words[i] = string(status)
		}
		text = strings.Join(words, ",")
	case *time.Time:
		return check.BoundText(f.Parameter, *place)
	case *bool:
		if *place {
			text = "true"
		}
	case **bool:
		if *place != nil {
			text = strconv.FormatBool(**place)
		}
	}
	if !fits {
		return "", check.Invalid(f.Parameter, f.Rule(), fmt.Sprintf("%.100q", text))
	}
	return text, nil
}
