// Package form has the fields of a task as people and programs fill them in. The HTTP API, the dashboard and the
// command line make their forms from the list Fields, so that they have the same fields with the same limits, and
// refuse a wrong value with the same sentence. An application can make a form of its own from it.
package form

import (
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/backoff"
	rules "github.com/tasktable/tasktable/store/recurrence"
)

// Kind is the kind of a field's values.
type Kind int

// The kinds.
const (
	Text    Kind = iota
	Number       // a whole number
	Length       // of time; a number of seconds in JSON
	Time         // RFC 3339 in JSON; as package when reads it in a text
	Choice       // one of Words
	Payload      // a JSON object with the field type
	Tasks        // a JSON array of tasks, each with the fields that have IfDead
)

// Field is a field of a task.
type Field struct {
	Name    string // in the table, in JSON and in errors
	Input   string // in forms for people, for example the option --at of the command line
	Label   string // above an input of a page
	Help    string // what the field means, without its last period
	Default string // what an empty field means, and "" for nothing
	Kind    Kind
	// Rule is what a value has to be: "must be between -100 and 100". It is in every error about a value that is
	// outside of the limits.
	Rule     string
	Words    []string // of a Choice
	Min, Max int      // of a Number: the values; of a Text: its bytes
	Shortest time.Duration
	Longest  time.Duration // of a Length
	Recurs   bool          // only a task that recurs has it
	Verb     bool          // it is about what Schedule does to a task that exists, and no part of the task
	IfDead   bool          // a task of if_dead has it, too
	OfType   bool          // a type may have a default for it, see store.Defaults
	of       func(*store.Task) any
}

// Type is the field for the type of a task, if the payload does not name it. It is no part of the JSON form.
var Type = Field{
	Name: "type", Input: "type", Label: "Type", Help: "The type", Default: "the payload's field type", Min: 2, Max: 127,
	Rule: "must be 2 to 127 letters, digits or _-[]<>/.·:+",
}

var (
	catchUps = []string{string(store.CatchUpLatest), string(store.CatchUpAll), string(store.CatchUpNone)}
	overlaps = []string{string(store.OverlapSkip), string(store.OverlapAllow), string(store.OverlapCancelRunning)}
)

const textRule = "must be at most 512 bytes of UTF-8 without control characters"

// Fields are the fields of a task, in the order in which forms show them.
var Fields = []Field{
	{Name: "id", Input: "id", Label: "Id", Help: "The id. A task that recurs needs one", Default: "a new one",
		Rule: textRule, Min: 1, Max: store.MaxIDBytes, IfDead: true,
		of: func(t *store.Task) any { return &t.ID }},
	{Name: "payload", Input: "payload", Label: "Payload", Help: "The content: a JSON object", Kind: Payload,
		Rule: "must be a JSON object", IfDead: true,
		of: func(t *store.Task) any { return &t.Payload }},
	{Name: "entity", Input: "entity", Label: "Entity", Help: "The thing that the task is about, such as event:42",
		Rule: textRule, Min: 1, Max: store.MaxIDBytes, IfDead: true,
		of: func(t *store.Task) any { return &t.Entity }},
	{Name: "tenant_id", Input: "tenant", Label: "Tenant", Help: "The tenant that the task belongs to",
		Default: "the caller's",
		Rule:    textRule, Min: 1, Max: store.MaxIDBytes,
		of: func(t *store.Task) any { return &t.TenantID }},
	{Name: "group_key", Input: "group-key", Label: "Group", Help: "The group of the task, such as customer:42",
		Rule: textRule, Min: 1, Max: store.MaxIDBytes, IfDead: true, OfType: true,
		of: func(t *store.Task) any { return &t.Group }},
	{Name: "scheduled_at", Input: "at", Label: "Time",
		Help:    "When the task is due. A task that recurs fires from then on",
		Default: "now; an existing task keeps its time", Kind: Time, IfDead: true,
		Rule: "must be in the years 1 to 9999",
		of:   func(t *store.Task) any { return &t.At }},
	{Name: "expiration", Input: "expiration", Label: "Expiration", Default: "for ever", Kind: Length,
		IfDead: true, OfType: true,
		Help: "How long after its time an attempt may still start",
		Rule: "must be between 1µs and 10 years", Shortest: time.Microsecond, Longest: store.MaxExpiration,
		of: func(t *store.Task) any { return &t.Expiration }},
	{Name: "queue", Input: "queue", Label: "Queue", Help: "Only nodes that work this queue run the task",
		Default: store.DefaultQueue, Rule: "must be 1 to 64 of a-z, 0-9, inner - or _", Min: 1, Max: 64,
		IfDead: true, OfType: true,
		of: func(t *store.Task) any { return &t.Queue }},
	{Name: "priority", Input: "priority", Label: "Priority",
		Help:    "Tasks with a higher priority run first. 0 counts as left out",
		Default: "0", Kind: Number, Rule: "must be between -100 and 100", IfDead: true, OfType: true,
		Min: store.MinPriority, Max: store.MaxPriority,
		of: func(t *store.Task) any { return &t.Priority }},
	{Name: "expected_execution_time", Input: "expected-execution-time", Label: "Expected execution time",
		Help: "How long an attempt may take before it is given up as lost", Default: "5m", Kind: Length,
		IfDead: true, OfType: true,
		Rule: "must be between 1µs and 7 days", Shortest: time.Microsecond, Longest: store.MaxExpectedExecutionTime,
		of: func(t *store.Task) any { return &t.ExpectedExecutionTime }},
	{Name: "max_attempts", Input: "max-attempts", Label: "Attempts at most", Default: "10", Kind: Number,
		IfDead: true, OfType: true,
		Help: "After this many failed attempts the task is FAILED",
		Rule: "must be between 1 and 1000", Min: 1, Max: store.MaxMaxAttempts,
		of: func(t *store.Task) any { return &t.MaxAttempts }},
	{Name: "backoff", Input: "backoff", Label: "Wait before a retry", Default: "as the nodes are configured",
		Help: `The wait, such as 1m, or with a growing wait, "10s x3 max 1h jitter 25%"`, IfDead: true, OfType: true,
		Rule: backoff.Rule, Min: 1, Max: 64,
		of: func(t *store.Task) any { return &t.Backoff }},
	{Name: "timeout", Input: "timeout", Label: "Timeout", Default: "the expected execution time", Kind: Length,
		Help: "How long after its start the handler is told to end", IfDead: true, OfType: true,
		Rule: "must be between 1µs and 7 days", Shortest: time.Microsecond, Longest: store.MaxTimeout,
		of: func(t *store.Task) any { return &t.Timeout }},
	{Name: "deadline", Input: "deadline", Label: "Deadline", Kind: Time, IfDead: true, Default: "none",
		Help: "Nothing of the task runs after it. A task that recurs has expiration instead",
		Rule: "must be in the years 1 to 9999",
		of:   func(t *store.Task) any { return &t.Deadline }},
	{Name: "jitter", Input: "jitter", Label: "Jitter", Kind: Length, IfDead: true,
		Help: "Delays the task by up to this. The delay depends on the id and the time alone",
		Rule: "must be between 1µs and 24h", Shortest: time.Microsecond, Longest: store.MaxJitter,
		of: func(t *store.Task) any { return &t.Jitter }},
	{Name: "retention", Input: "retention", Label: "Retention", Default: "as the nodes are configured", Kind: Length,
		Help: "How long the task is kept after its end", IfDead: true, OfType: true,
		Rule: "must be between 1µs and 100 years", Shortest: time.Microsecond, Longest: store.MaxRetention,
		of: func(t *store.Task) any { return &t.Retention }},
	{Name: "if_finished", Input: "if-finished", Label: "If it has ended", Kind: Choice, Verb: true, IfDead: true,
		Help: "For a task that has ended. rearm without a time runs it again now, and keep never runs it again",
		Rule: "must be rearm or keep", Default: "it runs again if the time differs",
		Words: []string{string(store.Rearm), string(store.Keep)},
		of:    func(t *store.Task) any { return (*string)(&t.IfFinished) }},
	{Name: "if_exists", Input: "if-exists", Label: "If it exists", Kind: Choice, Verb: true,
		Help: "For a task that waits or runs. keep leaves it as it is, and reject makes that an error",
		Rule: "must be keep or reject", Default: "it is edited",
		Words: []string{string(store.Keep), string(store.Reject)},
		of:    func(t *store.Task) any { return (*string)(&t.IfExists) }},
	{Name: "delay", Input: "delay", Label: "Delay", Kind: Length, Verb: true, Default: "at once",
		Help: "How long after now a task is due that is new or runs again, instead of a time",
		Rule: "must be between 1µs and 10 years", Shortest: time.Microsecond, Longest: store.MaxExpiration,
		of: func(t *store.Task) any { return &t.In }},
	{Name: "debounce", Input: "debounce", Label: "Debounce", Kind: Length, Verb: true,
		Help: "Moves a task that waits to the delay from now, but at most to this after the first call",
		Rule: "must be between 1µs and 10 years", Shortest: time.Microsecond, Longest: store.MaxExpiration,
		of: func(t *store.Task) any { return &t.Debounce }},
	{Name: "unique_for", Input: "unique-for", Label: "Unique for", Kind: Length, Verb: true,
		Help: "Leaves a task as it is that was scheduled or queued again within this time, also one that has ended",
		Rule: "must be between 1µs and 10 years", Shortest: time.Microsecond, Longest: store.MaxExpiration,
		of: func(t *store.Task) any { return &t.UniqueFor }},
	{Name: "if_running", Input: "if-running", Label: "If it runs", Kind: Choice, Verb: true,
		Help: "For a running task that is scheduled unchanged. again runs it once more after this attempt",
		Rule: "must be again", Default: "it stays as it is", Words: []string{string(store.Again)},
		of: func(t *store.Task) any { return (*string)(&t.IfRunning) }},
	{Name: "if_dead", Input: "if-dead", Label: "If it dies", Kind: Tasks, Max: store.MaxIfDead,
		Help: "Tasks that are scheduled if this one becomes FAILED or EXPIRED, in the commit that makes it so. They " +
			"do not recur, and have the tenant of this one", Rule: "must be at most 10 tasks",
		of: func(t *store.Task) any { return &t.IfDead }},
	{Name: "cron", Input: "cron", Label: "Cron expression", Recurs: true, Min: 1, Max: 256,
		Help: "Makes the task recur: an expression of 5 fields, of 6 with the seconds first, @daily and its like, or " +
			"@every 90s, and options such as every=2 from=2027-01-05, or out-of=company. The task itself never runs. " +
			"Each fire makes an occurrence of it",
		Rule: "must be 1 to 256 printable ASCII characters",
		of:   func(t *store.Task) any { return wholeCron(t) }},
	{Name: "time_zone", Input: "cron-time-zone", Label: "Zone of the expression", Recurs: true, Min: 1, Max: 64,
		Help: "The IANA time zone of the expression, such as Europe/Berlin", Default: "UTC",
		Rule: "must be an IANA zone, such as Europe/Berlin",
		of:   func(t *store.Task) any { return &recurrence(t).TimeZone }},
	{Name: "overlap", Input: "overlap", Label: "While an earlier occurrence has not ended", Recurs: true, Kind: Choice,
		Help: "For a fire while an earlier occurrence has not ended", Default: "skip", Words: overlaps,
		Rule: "must be skip, allow or cancel_running",
		of:   func(t *store.Task) any { return (*string)(&recurrence(t).Overlap) }},
	{Name: "catch_up", Input: "catch-up", Label: "Fires missed while no node ran", Recurs: true, Kind: Choice,
		Help: "For fires that were missed while no node was running", Default: "latest", Words: catchUps,
		Rule: "must be latest, all or none",
		of:   func(t *store.Task) any { return (*string)(&recurrence(t).CatchUp) }},
	{Name: "catch_up_paused", Input: "catch-up-paused", Label: "Fires missed during a pause", Recurs: true,
		Help: "For fires that were missed during a pause", Default: "none", Words: catchUps, Kind: Choice,
		Rule: "must be latest, all or none",
		of:   func(t *store.Task) any { return (*string)(&recurrence(t).CatchUpPaused) }},
	{Name: "catch_up_limit", Input: "catch-up-limit", Label: "Missed fires at most", Recurs: true, Kind: Number,
		Help: "How many missed fires the policy all runs at most", Default: "100",
		Rule: "must be between 1 and 10000", Min: 1, Max: store.MaxCatchUpLimit,
		of: func(t *store.Task) any { return &recurrence(t).CatchUpLimit }},
	{Name: "ends_at", Input: "ends-at", Label: "Ends at", Recurs: true, Kind: Time, Default: "never ends",
		Help: "The last instant at which the expression may fire", Rule: "must be in the years 1 to 9999",
		of: func(t *store.Task) any { return &recurrence(t).EndsAt }},
	{Name: "max_occurrences", Input: "max-occurrences", Label: "Occurrences at most", Recurs: true, Kind: Number,
		Help: "After this many occurrences the recurrence ends", Default: "no limit",
		Rule: "must be between 1 and 1000000", Min: 1, Max: 1000000,
		of: func(t *store.Task) any { return &recurrence(t).MaxOccurrences }},
}

// wholeCron returns the expression with its options behind it, because a field has them as one text.
func wholeCron(t *store.Task) *string {
	r := recurrence(t)
	if text := r.Text(); text != r.Cron {
		r.Cron, r.Every, r.From, r.OutOf, r.KeepTo, r.Move = text, 0, rules.Date{}, nil, nil, ""
	}
	return &r.Cron
}

// recurrence returns the task's Recurrence. Check takes it away again if no field of it was set.
func recurrence(t *store.Task) *store.Recurrence {
	if t.Recurrence == nil {
		t.Recurrence = &store.Recurrence{}
	}
	return t.Recurrence
}

// Named returns the field of a name, and whether there is one.
func Named(name string) (Field, bool) {
	for _, field := range Fields {
		if field.Name == name {
			return field, true
		}
	}
	return Field{}, false
}
