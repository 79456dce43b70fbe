package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

var (
	// ErrUnknown is wrapped by the error about a name that no rule or no recipient has.
	ErrUnknown = errors.New("no such name")
	// ErrDeclared is wrapped by the error about a rule that code declares. Only that code changes it.
	ErrDeclared = errors.New("the rule is declared in code")
	// ErrTaken is wrapped by the error about a rule that code cannot declare, because it is not the service's.
	ErrTaken = errors.New("the name is taken")
	// ErrInUse is wrapped by the error about a recipient that a rule names.
	ErrInUse = errors.New("a rule names the recipient")
)

// Config configures Rules. The zero value works.
type Config struct {
	// Schema is the schema of the tables. The zero value is the default schema, tasktable.
	Schema store.Schema
}

// Rules reads and writes rules and recipients. It holds no connection. It is safe for concurrent use.
type Rules struct{ schema store.Schema }

// New returns Rules.
func New(config Config) *Rules {
	if config.Schema == (store.Schema{}) {
		config.Schema, _ = store.NewSchema("") // the default is a good name
	}
	return &Rules{config.Schema}
}

// The outcomes of Set and SetRecipient.
const (
	Created = "created"
	Updated = "updated"
)

const missingRecipientsSQL = `
SELECT string_agg(one, ', ' ORDER BY one) AS value FROM jsonb_array_elements_text($1::text::jsonb) AS one
WHERE NOT EXISTS (SELECT FROM tasktable.notice_recipients AS p WHERE p.name = one)
HAVING count(*) > 0`

const setRuleSQL = `
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_record($1::text::jsonb) AS g (name text, events text[], types text[], queues text[],
        tenants text[], entities text[], recurring text[], recipients text[], digest_seconds float8,
        after_seconds float8, details boolean, enabled boolean, declared_by text)
), written AS (
    INSERT INTO tasktable.notice_rules AS r (name, events, types, queues, tenants, entities, recurring, digest,
        after, details, enabled, declared_by)
    SELECT g.name, g.events, g.types, g.queues, g.tenants, g.entities, g.recurring,
        make_interval(secs => g.digest_seconds), make_interval(secs => g.after_seconds), g.details, g.enabled,
        g.declared_by
    FROM given AS g
    ON CONFLICT (name) DO UPDATE SET (events, types, queues, tenants, entities, recurring, digest, after, details,
        enabled) = (excluded.events, excluded.types, excluded.queues, excluded.tenants, excluded.entities,
        excluded.recurring, excluded.digest, excluded.after, excluded.details, excluded.enabled)
    WHERE r.declared_by IS NOT DISTINCT FROM excluded.declared_by
    RETURNING r.name, CASE WHEN r.xmax = 0 THEN 'created' ELSE 'updated' END AS outcome
), removed AS (
    DELETE FROM tasktable.notice_rule_recipients AS m USING given AS g, written AS w
    WHERE m.rule = w.name AND m.recipient <> ALL (g.recipients)
), added AS (
    INSERT INTO tasktable.notice_rule_recipients (rule, recipient)
    SELECT w.name, one FROM written AS w, given AS g, unnest(g.recipients) AS one
    ON CONFLICT DO NOTHING
)
SELECT w.outcome AS value FROM written AS w`

// Set creates or replaces a rule. It returns Created or Updated. The error wraps store.ErrInvalid for a bad field, and
// ErrDeclared if the code of a service declares the rule. Nothing is changed then.
func (r *Rules) Set(ctx context.Context, db store.DB, rule Rule) (outcome string, err error) {
	rule.DeclaredBy = ""
	return r.set(ctx, db, rule)
}

func (r *Rules) set(ctx context.Context, db store.DB, rule Rule) (outcome string, err error) {
	doing := fmt.Sprintf("set notice rule %.100q", rule.Name)
	if err := rule.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	recipients, _ := json.Marshal(rule.Recipients) // strings always encode
	missing, err := one(ctx, r, db, missingRecipientsSQL, string(recipients))
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if missing != "" {
		return "", fmt.Errorf("%s: %w", doing, invalid("recipients must be names of recipients; there is no %.200s",
			missing))
	}
	encoded, err := json.Marshal(rule)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	outcome, err = one(ctx, r, db, setRuleSQL, string(encoded))
	switch {
	case err == nil && outcome == "" && rule.DeclaredBy != "":
		err = fmt.Errorf("%w: an operator or another service has made a rule of this name", ErrTaken)
	case err == nil && outcome == "":
		err = ErrDeclared
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return outcome, nil
}

const removeDeclaredSQL = `
DELETE FROM tasktable.notice_rules AS r
WHERE r.declared_by = $1::text AND NOT ($2::text::jsonb ? r.name)
RETURNING r.name AS value`

// Declare makes the rules that the code of a service declares agree with a list. It removes the service's rules that
// are not in the list. The error wraps store.ErrInvalid for a bad field, and ErrTaken for the name of a rule that an
// operator or another service has made. Call it in a transaction, so that an error changes nothing.
func (r *Rules) Declare(ctx context.Context, db store.DB, service string, declared []Rule) error {
	doing := fmt.Sprintf("declare the notice rules of %.100q", service)
	names := make([]string, len(declared))
	for i, rule := range declared {
		rule.DeclaredBy, names[i] = service, rule.Name
		if _, err := r.set(ctx, db, rule); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	encoded, _ := json.Marshal(names) // strings always encode
	if _, err := collect(ctx, r, db, removeDeclaredSQL, service, string(encoded)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

const listRulesSQL = `
SELECT jsonb_build_object('name', r.name, 'events', r.events, 'types', r.types, 'queues', r.queues,
    'tenants', r.tenants, 'entities', r.entities, 'recurring', r.recurring,
    'digest_seconds', extract(epoch FROM r.digest)::bigint,
    'after_seconds', extract(epoch FROM r.after)::bigint, 'details', r.details, 'enabled', r.enabled,
    'declared_by', r.declared_by, 'recipients', (SELECT coalesce(jsonb_agg(m.recipient ORDER BY m.recipient), '[]')
        FROM tasktable.notice_rule_recipients AS m WHERE m.rule = r.name))::text AS value
FROM tasktable.notice_rules AS r ORDER BY r.name`

// List returns the rules, sorted by name.
func (r *Rules) List(ctx context.Context, db store.DB) ([]Rule, error) {
	return list[Rule](ctx, r, db, "list notice rules", listRulesSQL)
}

const removeRuleSQL = `
WITH removed AS (
    DELETE FROM tasktable.notice_rules AS r WHERE r.name = $1::text AND r.declared_by IS NULL RETURNING 1
)
SELECT CASE WHEN EXISTS (SELECT FROM removed) THEN 'removed' ELSE 'declared' END AS value
FROM tasktable.notice_rules AS r WHERE r.name = $1::text`

// Remove removes a rule. Notices that it has scheduled are not sent. The error wraps ErrUnknown or ErrDeclared.
func (r *Rules) Remove(ctx context.Context, db store.DB, name string) error {
	outcome, err := one(ctx, r, db, removeRuleSQL, strings.ReplaceAll(name, "\x00", ""))
	switch {
	case err != nil:
	case outcome == "":
		err = ErrUnknown
	case outcome == "declared":
		err = ErrDeclared
	default:
		return nil
	}
	return fmt.Errorf("remove notice rule %.100q: %w", name, err)
}

const setRecipientSQL = `
WITH written AS (
    INSERT INTO tasktable.notice_recipients AS p (name, email, target, events)
    SELECT g.name, g.email, g.target, g.events
    FROM jsonb_to_record($1::text::jsonb) AS g (name text, email text, target text, events text[])
    ON CONFLICT (name) DO UPDATE SET (email, target, events) = (excluded.email, excluded.target, excluded.events)
    RETURNING p.xmax = 0 AS created
)
SELECT CASE WHEN w.created THEN 'created' ELSE 'updated' END AS value FROM written AS w`

// SetRecipient creates or replaces a recipient. It returns Created or Updated. The error wraps store.ErrInvalid for a
// bad field.
func (r *Rules) SetRecipient(ctx context.Context, db store.DB, recipient Recipient) (outcome string, err error) {
	doing := fmt.Sprintf("set notice recipient %.100q", recipient.Name)
	if err := recipient.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	encoded, err := json.Marshal(recipient)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if outcome, err = one(ctx, r, db, setRecipientSQL, string(encoded)); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return outcome, nil
}

const listRecipientsSQL = `
SELECT jsonb_build_object('name', p.name, 'email', p.email, 'target', p.target, 'events', p.events)::text AS value
FROM tasktable.notice_recipients AS p ORDER BY p.name`

// Recipients returns the recipients, sorted by name.
func (r *Rules) Recipients(ctx context.Context, db store.DB) ([]Recipient, error) {
	return list[Recipient](ctx, r, db, "list notice recipients", listRecipientsSQL)
}

const removeRecipientSQL = `
WITH used AS (
    SELECT string_agg(m.rule, ', ' ORDER BY m.rule) AS rules FROM tasktable.notice_rule_recipients AS m
    WHERE m.recipient = $1::text
), removed AS (
    DELETE FROM tasktable.notice_recipients AS p USING used WHERE p.name = $1::text AND used.rules IS NULL RETURNING 1
)
SELECT coalesce(used.rules, '') AS value FROM used, tasktable.notice_recipients AS p WHERE p.name = $1::text`

// RemoveRecipient removes a recipient. The error wraps ErrUnknown, or ErrInUse if a rule names the recipient.
func (r *Rules) RemoveRecipient(ctx context.Context, db store.DB, name string) error {
	doing := fmt.Sprintf("remove notice recipient %.100q", name)
	found, err := collect(ctx, r, db, removeRecipientSQL, strings.ReplaceAll(name, "\x00", ""))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case len(found) == 0:
		return fmt.Errorf("%s: %w", doing, ErrUnknown)
	case found[0] != "":
		return fmt.Errorf("%s: %w: %s", doing, ErrInUse, found[0])
	}
	return nil
}

const knowsRecipientSQL = `SELECT p.name AS value FROM tasktable.notice_recipients AS p WHERE p.name = $1::text`

// Knows returns an error that wraps ErrUnknown if there is no recipient of the name.
func (r *Rules) Knows(ctx context.Context, db store.DB, recipient string) error {
	found, err := one(ctx, r, db, knowsRecipientSQL, strings.ReplaceAll(recipient, "\x00", ""))
	if err == nil && found == "" {
		err = ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("find notice recipient %.100q: %w", recipient, err)
	}
	return nil
}

// collect runs a statement that returns one column of text, named value.
func collect(ctx context.Context, r *Rules, db store.DB, statement string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, r.schema.SQL(statement), args...)
	if err != nil {
		return nil, ruleOf(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		return nil, ruleOf(err)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = *cmp.Or(value, new(""))
	}
	return texts, nil
}

// ruleOf returns the name of the constraint that a value breaks, because the name is the rule.
func ruleOf(err error) error {
	const checkViolation = "23514"
	if broken := new(pgconn.PgError); errors.As(err, &broken) && broken.Code == checkViolation {
		return invalid("%s", broken.ConstraintName)
	}
	return err
}

// one returns the first value, or "".
func one(ctx context.Context, r *Rules, db store.DB, statement string, args ...any) (string, error) {
	values, err := collect(ctx, r, db, statement, args...)
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

func list[T any](ctx context.Context, r *Rules, db store.DB, doing, statement string) ([]T, error) {
	texts, err := collect(ctx, r, db, statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found := make([]T, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &found[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	return found, nil
}
