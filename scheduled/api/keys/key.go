package keys

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
)

// Scope is a kind of call that a key allows. No scope includes another.
type Scope string

// The scopes.
const (
	Read     Scope = "read"
	Schedule Scope = "schedule"
	Operate  Scope = "operate"
	// Admin is for people who are signed in to the dashboard. It allows them to manage keys and notices.
	Admin Scope = "admin"
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{Read, Schedule, Operate, Admin} }

// Key is a key without its secret.
type Key struct {
	Number     int64      `json:"number"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"` // the first 8 characters of the secret
	Scopes     []Scope    `json:"scopes" db:"-"`
	Service    string     `json:"service"`                 // tasks are scheduled in its name
	TenantID   string     `json:"tenant_id,omitempty"`     // the key has the tasks of this tenant; "": of all
	Types      []string   `json:"types,omitempty" db:"-"`  // see NewKey
	Queues     []string   `json:"queues,omitempty" db:"-"` // see NewKey
	Rate       int        `json:"rate,omitempty"`          // calls a second; 0: no limit of its own
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  *string    `json:"revoked_by,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // up to a minute old, or more if it is not used; nil: not yet
}

// Allows reports whether the key has a scope.
func (k Key) Allows(scope Scope) bool { return slices.Contains(k.Scopes, scope) }

// String returns the name, so that a printed key is short.
func (k Key) String() string { return k.Name }

// Limits of a NewKey's fields.
const (
	MaxNameLength = 63
	MaxRate       = 1_000_000
	MaxBounds     = 100                // types of one key, and queues
	MaxExpiresIn  = 876600 * time.Hour // 100 years
)

// NewKey is a key to create.
type NewKey struct {
	// Name has 1 to 63 letters, digits or _.-. No other key has it, unless that key is revoked.
	Name string
	// Scopes are one or more of Read, Schedule, Operate and Admin.
	Scopes []Scope
	// Service is the service in whose name tasks are scheduled and changed. Default (""): the name, so that the history
	// tells which key was used.
	Service string
	// TenantID restricts the key to the tasks of one tenant. Default (""): the tasks of all tenants.
	TenantID string
	// Types binds the key to these types: it changes tasks of no other. A type stands for its variants, too, so EXEC
	// allows EXEC:backup. Default (nil): all types. But a key of a tenant has EXEC, RUN_SQL and SEND_EMAIL only if
	// Types has them, because these act with the rights of the nodes.
	Types []string
	// Queues binds the key to these queues: it changes tasks of no other. Default (nil): all queues.
	Queues []string
	// Rate is the number of calls that the key may make in a second, at most MaxRate. Default (0): no limit.
	Rate int
	// ExpiresIn is the time until the key expires, from a second to 100 years. Default (0): the key does not expire.
	ExpiresIn time.Duration
	// By is the person or program that creates the key. Default (""): the database role.
	By string
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

// Check returns the error that Create would return for a field, except for a name that another key has. It wraps
// store.ErrInvalid.
func (n NewKey) Check() error {
	_, err := n.complete()
	return err
}

// complete returns the key with its defaults and with its scopes in order, or the error about a field.
func (n NewKey) complete() (NewKey, error) {
	if n.Service == "" {
		n.Service = n.Name
	}
	switch {
	case !nameSyntax.MatchString(n.Name):
		return n, invalid("name must be 1 to 63 letters, digits or _.-, got %.100q", n.Name)
	case len(n.Scopes) == 0:
		return n, invalid("scopes must be one or more of read, schedule, operate, admin, got none")
	case len(n.Types)+len(n.Queues) > 0 && slices.Contains(n.Scopes, Admin):
		return n, invalid("types and queues must be empty for a key with the scope admin, because it can make " +
			"other keys")
	case len(n.Types) > MaxBounds || len(n.Queues) > MaxBounds:
		return n, invalid("types and queues must be at most %d each, got %d and %d", MaxBounds, len(n.Types),
			len(n.Queues))
	case slices.Contains(n.Types, "") || slices.Contains(n.Queues, ""): // an empty one would lift the limit
		return n, invalid("types and queues must have no empty name")
	case n.TenantID != "" && strings.TrimSpace(n.TenantID) == "":
		return n, invalid("tenant_id must not be blank, got %q", n.TenantID)
	case n.Rate < 0 || n.Rate > MaxRate:
		return n, invalid("rate must be 0 to %d calls a second, got %d", MaxRate, n.Rate)
	case n.ExpiresIn != 0 && (n.ExpiresIn < time.Second || n.ExpiresIn > MaxExpiresIn):
		return n, invalid("expires_in must be 0 or from 1s to 876600h, got %s", n.ExpiresIn)
	}
	for _, text := range []struct{ field, value string }{
		{"service", n.Service}, {"tenant_id", n.TenantID}, {"by", n.By},
	} {
		if err := checkText(text.field, text.value); err != nil {
			return n, err
		}
	}
	for _, name := range n.Types {
		if err := store.CheckType(name); err != nil {
			return n, err
		}
	}
	for _, name := range n.Queues {
		if err := store.CheckQueue(name); err != nil {
			return n, err
		}
	}
	var ordered []Scope
	for _, scope := range Scopes() {
		if slices.Contains(n.Scopes, scope) {
			ordered = append(ordered, scope)
		}
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(ordered, scope) {
			return n, invalid("scopes must be one or more of read, schedule, operate, admin, got %.100q", scope)
		}
	}
	n.Scopes = ordered
	return n, nil
}

func checkText(field, value string) error {
	if len(value) > store.MaxIDBytes || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return invalid("%s must be at most %d bytes of UTF-8 without control characters, got %.100q", field,
			store.MaxIDBytes, value)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{store.ErrInvalid}, args...)...)
}
