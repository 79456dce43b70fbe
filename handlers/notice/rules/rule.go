package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Event is a kind of cause.
type Event string

// The events.
const (
	Failed       Event = "failed"       // a task failed for good
	Expired      Event = "expired"      // a task expired before an attempt could start
	Lost         Event = "lost"         // the node of an attempt died, or its lease ended
	Late         Event = "late"         // tasks of a type are due since more than Rule.After and were not claimed
	Missed       Event = "missed"       // a fire of a recurring task is more than Rule.After late, or came so late
	Unsuccessful Event = "unsuccessful" // no occurrence of a recurring task has completed for more than Rule.After
	Recovered    Event = "recovered"    // late, missed or unsuccessful no more, or a dead letter has completed
)

// Events returns all events.
func Events() []Event {
	return []Event{Failed, Expired, Lost, Late, Missed, Unsuccessful, Recovered}
}

// Defaults and bounds of Rule.
const (
	DefaultDigest = time.Minute
	DefaultAfter  = 5 * time.Minute
	// AtOnce, as the Digest of a rule, makes each cause a notice of its own.
	AtOnce time.Duration = -1

	maxDigest = 7 * 24 * time.Hour
	maxAfter  = 366 * 24 * time.Hour
	maxValues = 100
)

// Rule says which causes make a notice, and who gets it. Name, Events and Recipients are required.
type Rule struct {
	// Name has 1 to 63 letters, digits or _.-.
	Name string `json:"name"`
	// Events are the causes.
	Events []Event `json:"events"`
	// Types, Queues, Tenants and Entities are those of the tasks that match. Each has at most 100 values. Default
	// (none): all.
	Types    []string `json:"types,omitempty"`
	Queues   []string `json:"queues,omitempty"`
	Tenants  []string `json:"tenants,omitempty"`
	Entities []string `json:"entities,omitempty"`
	// Recurring are ids of recurring tasks. They and their occurrences match. It has at most 100. Default (none): all
	// tasks match.
	Recurring []string `json:"recurring,omitempty"`
	// Recipients are names of recipients.
	Recipients []string `json:"recipients"`
	// Digest is the length of the windows. All causes of a window are one notice, sent at its end. It is 1 s to 7 days,
	// in whole seconds, or AtOnce. Default (0): a minute.
	Digest time.Duration `json:"-"`
	// After is how long something lasts before it is late, missed or unsuccessful. It is 1 s to 366 days, in whole
	// seconds. Default (0): 5 minutes.
	After time.Duration `json:"-"`
	// WithoutDetails leaves the errors of tasks out of the text.
	WithoutDetails bool `json:"-"`
	// Disabled keeps the rule from making notices.
	Disabled bool `json:"-"`
	// DeclaredBy is the service whose code declares the rule. Declare sets it. "": an operator made the rule.
	DeclaredBy string `json:"-"`
}

// plainRule is a Rule without methods.
type plainRule Rule

// ruleJSON is a Rule in JSON, for the database and for output.
type ruleJSON struct {
	plainRule

	DigestSeconds *int64 `json:"digest_seconds"` // null: at once
	AfterSeconds  int64  `json:"after_seconds"`
	Details       bool   `json:"details"`
	Enabled       bool   `json:"enabled"`
	DeclaredBy    string `json:"declared_by,omitempty"`
}

// MarshalJSON writes durations as seconds. A digest of null means at once.
func (r Rule) MarshalJSON() ([]byte, error) {
	r = r.withDefaults()
	text := ruleJSON{plainRule: plainRule(r), AfterSeconds: int64(r.After / time.Second), Details: !r.WithoutDetails,
		Enabled: !r.Disabled, DeclaredBy: r.DeclaredBy}
	if r.Digest != AtOnce {
		text.DigestSeconds = new(int64(r.Digest / time.Second))
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rule) UnmarshalJSON(encoded []byte) error {
	var text ruleJSON
	if err := json.Unmarshal(encoded, &text); err != nil {
		return err
	}
	*r = Rule(text.plainRule)
	r.After, r.Digest, r.DeclaredBy = time.Duration(text.AfterSeconds)*time.Second, AtOnce, text.DeclaredBy
	r.WithoutDetails, r.Disabled = !text.Details, !text.Enabled
	if text.DigestSeconds != nil {
		r.Digest = time.Duration(*text.DigestSeconds) * time.Second
	}
	return nil
}

func (r Rule) withDefaults() Rule {
	r.Digest, r.After = cmp.Or(r.Digest, DefaultDigest), cmp.Or(r.After, DefaultAfter)
	return r
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", store.ErrInvalid, fmt.Errorf(format, args...))
}

// Check returns an error that wraps store.ErrInvalid and names the first field that breaks a rule. Only Postgres knows
// the recipients, so Set checks these.
func (r Rule) Check() error {
	r = r.withDefaults()
	switch {
	case !nameSyntax.MatchString(r.Name):
		return invalid("name must be 1 to 63 letters, digits or _.-, got %.100q", r.Name)
	case len(r.Events) == 0:
		return invalid("events must have one or more of %s", eventNames())
	case len(r.Recipients) == 0:
		return invalid("recipients must have one or more names")
	case slices.Contains(r.Recipients, ""):
		return invalid("recipients must be names of recipients, and one of them is empty")
	case r.Digest != AtOnce && !isWholeSeconds(r.Digest, maxDigest):
		return invalid("digest must be whole seconds from 1s to %s, or at once, got %s", maxDigest, r.Digest)
	case !isWholeSeconds(r.After, maxAfter):
		return invalid("after must be whole seconds from 1s to %s, got %s", maxAfter, r.After)
	}
	if err := checkEvents(r.Events); err != nil {
		return err
	}
	for _, one := range r.Types {
		if err := store.CheckType(one); err != nil {
			return fmt.Errorf("types: %w", err)
		}
	}
	for _, one := range r.Queues {
		if err := store.CheckQueue(one); err != nil {
			return fmt.Errorf("queues: %w", err)
		}
	}
	for field, values := range map[string][]string{
		"types": r.Types, "queues": r.Queues, "tenants": r.Tenants, "entities": r.Entities,
		"recurring": r.Recurring,
	} {
		if len(values) > maxValues || slices.Contains(values, "") {
			return invalid("%s must have at most %d values, and none that is empty", field, maxValues)
		}
	}
	return nil
}

func isWholeSeconds(d, most time.Duration) bool {
	return d >= time.Second && d <= most && d%time.Second == 0
}

func eventNames() string {
	names := make([]string, len(Events()))
	for i, event := range Events() {
		names[i] = string(event)
	}
	return strings.Join(names, ", ")
}

func checkEvents(events []Event) error {
	for _, event := range events {
		if !slices.Contains(Events(), event) {
			return invalid("events must be of %s, got %.100q", eventNames(), event)
		}
	}
	return nil
}

// Recipient is who gets notices. Name is required, and either Email or Target.
type Recipient struct {
	// Name has 1 to 63 letters, digits or _.-.
	Name string `json:"name"`
	// Email is an address, such as ann@example.org.
	Email string `json:"email,omitempty"`
	// Target is the name of a target in the configuration of the nodes, which has its URL.
	Target string `json:"target,omitempty"`
	// Events are those that the recipient wants to be told. Default (none): all those of the rules.
	Events []Event `json:"events,omitempty"`
}

// Check is Rule.Check for a recipient.
func (r Recipient) Check() error {
	switch {
	case !nameSyntax.MatchString(r.Name):
		return invalid("name must be 1 to 63 letters, digits or _.-, got %.100q", r.Name)
	case (r.Email == "") == (r.Target == ""):
		return invalid("recipient %s must have either an email or a target", r.Name)
	case r.Target != "" && !nameSyntax.MatchString(r.Target):
		return invalid("target must be 1 to 63 letters, digits or _.-, the name of a target of the nodes' "+
			"configuration, got %.100q", r.Target)
	}
	return checkEvents(r.Events)
}
