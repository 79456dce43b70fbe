package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// Handler runs one attempt. Middleware wraps it.
type Handler func(ctx context.Context, e *Execution) error

// Middleware wraps a handler, as in net/http.
type Middleware func(next Handler) Handler

// Backoff says how long to wait before the next attempt, after the failed attempt number attempt (from 1) with err.
type Backoff func(attempt int, err error) time.Duration

// Kind is how a handler's database work commits.
type Kind int

// The kinds of handlers.
const (
	KindPlain Kind = iota // the handler's effects are its own: at least once
	KindTx                // in a pgx transaction that also settles the task: exactly once
	KindSQLTx             // the same with database/sql
)

// Variant is one handler of the union, as a Registry holds it.
type Variant struct {
	Type    string
	Kind    Kind
	Backoff Backoff // nil: the engine's

	aliases []string // other types that it is the handler of

	payload reflect.Type // nil: none

	bare  bool // it was given no function
	plain func(ctx context.Context, e *Execution) error
	tx    func(ctx context.Context, tx pgx.Tx, e *Execution) error
	sqlTx func(ctx context.Context, tx *sql.Tx, e *Execution) error
	own   Around
	all   []Middleware
}

// Option is an argument of Handle and its like: Use, WithBackoff or Alias.
type Option interface{ applyTo(*Variant) }

// Part is an argument of NewRegistry: a variant (Handle, HandleTx, HandleSQLTx, Func) or Use.
type Part interface{ addTo(*Registry) error }

// Registry is the union: all variants a node can run. It is made once and never changes.
type Registry struct {
	variants map[string]*Variant
	around   []Middleware
}

// NewRegistry checks and collects the variants. It returns an error wrapping store.ErrInvalid for a malformed or duplicate
// type, for a payload with a field of the JSON name "type", and when there is no variant at all.
func NewRegistry(parts ...Part) (*Registry, error) {
	registry := &Registry{variants: map[string]*Variant{}}
	var errs []error
	for i, part := range parts {
		if value := reflect.ValueOf(part); part == nil || value.Kind() == reflect.Pointer && value.IsNil() {
			errs = append(errs, fmt.Errorf("%w: argument %d is nil", store.ErrInvalid, i+1))
			continue
		}
		errs = append(errs, part.addTo(registry))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make registry: %w", err)
	}
	if len(registry.variants) == 0 {
		return nil, fmt.Errorf("make registry: %w: it needs at least one variant", store.ErrInvalid)
	}
	for _, variant := range registry.variants {
		variant.all = append(slices.Clone(registry.around), variant.own...)
	}
	return registry, nil
}

// Types lists the types of the union, aliases included, sorted.
func (r *Registry) Types() []string { return slices.Sorted(maps.Keys(r.variants)) }

// Missing lists the types among payloads that have no handler. Called in a test with one value of each variant that producers
// schedule, it keeps the union exhaustive: a variant without a handler would wait in the table for ever.
func (r *Registry) Missing(payloads ...store.Payload) []string {
	var missing []string
	for _, payload := range payloads {
		if name := payload.TaskType(); r.variants[name] == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Variant is the variant of a type, by its name or an alias, or nil.
func (r *Registry) Variant(name string) *Variant { return r.variants[name] }

// Handle makes a variant of a function. The type's name is P's. The function may run at the same time on many goroutines.
func Handle[P store.Payload](handle func(ctx context.Context, t *Task[P]) error, options ...Option) Part {
	variant := &Variant{Type: typeOf[P](), Kind: KindPlain, payload: reflect.TypeFor[P](), bare: handle == nil}
	variant.plain = func(ctx context.Context, e *Execution) error {
		t, err := decode[P](e)
		if err != nil {
			return err
		}
		return handle(ctx, t)
	}
	return variant.with(options)
}

// HandleTx makes a variant whose function works in a transaction that also settles the task: its writes in this database
// happen exactly once. They are rolled back when it returns an error, or when its claim was taken back meanwhile.
//
// When the task was edited meanwhile, they commit, recorded as SUPERSEDED. A cancel ends the handler's context within about a second: they
// commit, recorded as SUPERSEDED, if the handler returns nil before its context ends, else they are rolled back. A handler to which
// that matters locks the row that the edit or the cancel goes with, and compares it with t.ScheduledAt or the payload, before it acts.
func HandleTx[P store.Payload](handle func(ctx context.Context, tx pgx.Tx, t *Task[P]) error, options ...Option) Part {
	variant := &Variant{Type: typeOf[P](), Kind: KindTx, payload: reflect.TypeFor[P](), bare: handle == nil}
	variant.tx = func(ctx context.Context, tx pgx.Tx, e *Execution) error {
		t, err := decode[P](e)
		if err != nil {
			return err
		}
		return handle(ctx, tx, t)
	}
	return variant.with(options)
}

// HandleSQLTx is HandleTx for database/sql.
func HandleSQLTx[P store.Payload](handle func(ctx context.Context, tx *sql.Tx, t *Task[P]) error, options ...Option) Part {
	variant := &Variant{Type: typeOf[P](), Kind: KindSQLTx, payload: reflect.TypeFor[P](), bare: handle == nil}
	variant.sqlTx = func(ctx context.Context, tx *sql.Tx, e *Execution) error {
		t, err := decode[P](e)
		if err != nil {
			return err
		}
		return handle(ctx, tx, t)
	}
	return variant.with(options)
}

// Func makes a variant without payload fields of a plain function: what was a cron script becomes one line.
func Func(name string, run func(ctx context.Context) error, options ...Option) Part {
	variant := &Variant{Type: name, Kind: KindPlain, bare: run == nil}
	variant.plain = func(ctx context.Context, _ *Execution) error { return run(ctx) }
	return variant.with(options)
}

func (v *Variant) with(options []Option) Part {
	for _, option := range options {
		option.applyTo(v)
	}
	return v
}

func (v *Variant) addTo(r *Registry) error {
	if err := v.check(); err != nil {
		return err
	}
	var errs []error
	for _, name := range append([]string{v.Type}, v.aliases...) {
		switch err := store.CheckType(name); {
		case err != nil:
			errs = append(errs, fmt.Errorf("alias of type %q: %w", v.Type, err))
		case r.variants[name] != nil:
			errs = append(errs, fmt.Errorf("%w: type %q has two handlers", store.ErrInvalid, name))
		default:
			own := *v // a variant may be given to several registries, each with middleware of its own
			own.Type = name
			r.variants[name] = &own
		}
	}
	return errors.Join(errs...)
}

func (v *Variant) check() error {
	if err := store.CheckType(v.Type); err != nil {
		return err
	}
	if v.bare {
		return fmt.Errorf("%w: the handler of type %q is nil", store.ErrInvalid, v.Type)
	}
	if err := v.own.check(); err != nil {
		return fmt.Errorf("type %q: %w", v.Type, err)
	}
	return checkTypeField(v.Type, v.payload)
}

// Run runs one attempt of a plain variant.
func (v *Variant) Run(ctx context.Context, e *Execution) error {
	return v.wrap(v.plain)(ctx, e)
}

// RunTx runs one attempt of a KindTx variant in tx.
func (v *Variant) RunTx(ctx context.Context, tx pgx.Tx, e *Execution) error {
	return v.wrap(func(ctx context.Context, e *Execution) error { return v.tx(ctx, tx, e) })(ctx, e)
}

// RunSQLTx runs one attempt of a KindSQLTx variant in tx.
func (v *Variant) RunSQLTx(ctx context.Context, tx *sql.Tx, e *Execution) error {
	return v.wrap(func(ctx context.Context, e *Execution) error { return v.sqlTx(ctx, tx, e) })(ctx, e)
}

func (v *Variant) wrap(handler Handler) Handler {
	for _, middleware := range slices.Backward(v.all) {
		handler = middleware(handler)
	}
	return handler
}

// Around is middleware, for all variants as an argument of NewRegistry, for one as an argument of Handle. The first is the
// outermost; those for all lie around those for one.
type Around []Middleware

// Use makes an Around.
func Use(middleware ...Middleware) Around { return middleware }

func (a Around) addTo(r *Registry) error {
	r.around = append(r.around, a...)
	return a.check()
}

func (a Around) check() error {
	for i, middleware := range a {
		if middleware == nil {
			return fmt.Errorf("%w: middleware %d is nil", store.ErrInvalid, i+1)
		}
	}
	return nil
}

func (a Around) applyTo(v *Variant) { v.own = append(v.own, a...) }

type backoffOption struct{ backoff Backoff }

// WithBackoff gives a type its own delays between attempts, in place of the engine's.
func WithBackoff(backoff Backoff) Option { return backoffOption{backoff} }

func (o backoffOption) applyTo(v *Variant) { v.Backoff = o.backoff }

type aliasOption []string

// Alias makes the handler that of other types, too: of the names that its type had before it was renamed. Their tasks run as they are,
// with the old name in t.Type and in the history, and are decoded as the new payload: fields that have been renamed as well are to be
// read from t.Execution.Payload.
//
// A task keeps its type until it is scheduled with another, also where Again goes on with it: keep the alias until none has the old
// name. Ids stay, too. store.IDOf makes them of the type, so what schedules the renamed payload needs the old ids, by store.Task.ID, to
// meet the tasks that are there. What is set by type, as pauses and retention are, is set for each name apart.
func Alias(names ...string) Option { return aliasOption(names) }

func (o aliasOption) applyTo(v *Variant) { v.aliases = append(v.aliases, o...) }

// typeOf asks P's zero value, or the value a pointer type points to, for its name. A TaskType that panics on it has no
// constant name; NewRegistry then refuses "".
func typeOf[P store.Payload]() (name string) {
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	var zero P
	if t := reflect.TypeFor[P](); t.Kind() == reflect.Pointer {
		zero, _ = reflect.New(t.Elem()).Interface().(P)
	}
	return zero.TaskType()
}
