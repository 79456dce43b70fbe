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

// Handler runs one attempt of a task. Middleware wraps it.
type Handler func(ctx context.Context, e *Execution) error

// Middleware wraps a handler, as in net/http.
type Middleware func(next Handler) Handler

// Backoff returns how long to wait before the next attempt. attempt is the number of the attempt that failed, counted
// from 1, and err is its error.
type Backoff func(attempt int, err error) time.Duration

// Kind is how a handler's database work commits. It is for engines.
type Kind int

// The kinds of handlers.
const (
	KindPlain Kind = iota // the handler commits its effects itself: they happen at least once
	KindTx                // in a pgx transaction that also settles the task: they happen exactly once
	KindSQLTx             // the same with database/sql
)

// Variant is one handler of the union, as a Registry holds it. It is for engines.
type Variant struct {
	Type    string
	Kind    Kind
	Backoff Backoff // nil: the engine's

	Defaults *store.Defaults // the payload's own, or nil

	aliases []string // the other types that it handles

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

// Registry holds all variants that a node can run. NewRegistry makes it. It never changes afterwards, and it is safe
// for concurrent use.
type Registry struct {
	variants map[string]*Variant
	around   []Middleware
}

// NewRegistry checks and collects the variants. It returns an error that wraps store.ErrInvalid for a malformed or
// duplicate type, for a nil handler or a nil middleware, for a payload with a field of the JSON name "type", for two
// Keyed types of which one is the other with "-" and more behind it, because their tasks could have the same id, and
// when there is no variant at all.
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
	if err := registry.checkIDs(); err != nil {
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

// checkIDs refuses two types whose tasks could have the same id: send-email with the key welcome-42, and
// send-email-welcome with the key 42. An alias has the payload of its type, and does not count.
func (r *Registry) checkIDs() error {
	keyed := reflect.TypeFor[store.Keyed]()
	for _, name := range r.Types() {
		long := r.variants[name].payload
		for i := range name {
			short := r.variants[name[:i]]
			if name[i] != '-' || short == nil || short.payload == nil || long == nil || short.payload == long ||
				!short.payload.Implements(keyed) || !long.Implements(keyed) {
				continue
			}
			return fmt.Errorf("%w: types %q and %q could make the same id, because both have keys: rename one of them",
				store.ErrInvalid, short.Type, name)
		}
	}
	return nil
}

// Types returns the types that have a handler, aliases included, sorted.
func (r *Registry) Types() []string { return slices.Sorted(maps.Keys(r.variants)) }

// Defaults returns the defaults that the payloads of the handlers bring, sorted by type, aliases included.
func (r *Registry) Defaults() (all []store.Defaults) {
	for _, name := range r.Types() {
		if own := r.variants[name].Defaults; own != nil {
			all = append(all, *own)
		}
	}
	return all
}

// Missing returns the types among payloads that have no handler. Call it in a test with one value of each variant
// that producers schedule, because a task without a handler would wait in the table for ever.
func (r *Registry) Missing(payloads ...store.Payload) []string {
	var missing []string
	for _, payload := range payloads {
		if name := payload.TaskType(); r.variants[name] == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Variant returns the variant of a type, found by its name or by an alias. It returns nil if there is none.
// It is for engines.
func (r *Registry) Variant(name string) *Variant { return r.variants[name] }

// Handle makes a variant from a function. The type is P's TaskType. The function may run on many goroutines at the
// same time.
func Handle[P store.Payload](handle func(ctx context.Context, t *Task[P]) error, options ...Option) Part {
	variant := variantOf[P](KindPlain, handle == nil)
	variant.plain = func(ctx context.Context, e *Execution) error {
		t, err := decode[P](e)
		if err != nil {
			return err
		}
		return handle(ctx, t)
	}
	return variant.with(options)
}

// HandleTx makes a variant whose function works in a transaction that also settles the task. So the function's writes
// in this database happen exactly once. They are rolled back if the function returns an error, or if the leader took
// the task back meanwhile.
//
// If somebody edited the task meanwhile, the writes commit, and the attempt is recorded as SUPERSEDED. If somebody
// cancelled the task meanwhile, the handler's context ends within about a second. If the handler returns nil before
// that, its writes commit, and the attempt is recorded as SUPERSEDED. Otherwise the writes are rolled back. A handler
// that must not act on an old state locks the row that belongs to the edit or the cancel, and compares it with
// t.ScheduledAt or the payload, before it acts.
func HandleTx[P store.Payload](handle func(ctx context.Context, tx pgx.Tx, t *Task[P]) error, options ...Option) Part {
	variant := variantOf[P](KindTx, handle == nil)
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
func HandleSQLTx[P store.Payload](
	handle func(ctx context.Context, tx *sql.Tx, t *Task[P]) error, options ...Option,
) Part {
	variant := variantOf[P](KindSQLTx, handle == nil)
	variant.sqlTx = func(ctx context.Context, tx *sql.Tx, e *Execution) error {
		t, err := decode[P](e)
		if err != nil {
			return err
		}
		return handle(ctx, tx, t)
	}
	return variant.with(options)
}

// Func makes a variant without payload fields from a plain function. So a former cron script becomes one line.
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
			own := *v // a copy, because several registries may hold the variant, each with its own middleware
			own.Type = name
			if own.Defaults != nil {
				defaults := *own.Defaults
				defaults.Type, own.Defaults = name, &defaults
			}
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
	if v.Defaults != nil {
		if err := v.Defaults.Check(); err != nil {
			return fmt.Errorf("TaskDefaults of type %q: %w", v.Type, err)
		}
	}
	if err := v.own.check(); err != nil {
		return fmt.Errorf("type %q: %w", v.Type, err)
	}
	return checkTypeField(v.Type, v.payload)
}

// Run runs one attempt of a plain variant. It is for engines.
func (v *Variant) Run(ctx context.Context, e *Execution) error {
	defer e.late.end()
	return v.wrap(v.plain)(ctx, e)
}

// RunTx runs one attempt of a KindTx variant in tx. It is for engines.
func (v *Variant) RunTx(ctx context.Context, tx pgx.Tx, e *Execution) error {
	defer e.late.end()
	return v.wrap(func(ctx context.Context, e *Execution) error { return v.tx(ctx, tx, e) })(ctx, e)
}

// RunSQLTx runs one attempt of a KindSQLTx variant in tx. It is for engines.
func (v *Variant) RunSQLTx(ctx context.Context, tx *sql.Tx, e *Execution) error {
	defer e.late.end()
	return v.wrap(func(ctx context.Context, e *Execution) error { return v.sqlTx(ctx, tx, e) })(ctx, e)
}

func (v *Variant) wrap(handler Handler) Handler {
	for _, middleware := range slices.Backward(v.all) {
		handler = middleware(handler)
	}
	return handler
}

// Around is a list of middleware. As an argument of NewRegistry it is for all variants, and as an argument of Handle
// it is for one. The first element is the outermost. Middleware for all variants runs around the middleware for one.
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

// WithBackoff gives a type its own delays between attempts, instead of the engine's delays.
func WithBackoff(backoff Backoff) Option { return backoffOption{backoff} }

func (o backoffOption) applyTo(v *Variant) { v.Backoff = o.backoff }

type aliasOption []string

// Alias makes the handler run tasks of other types too: of the names that its type had before it was renamed. Such a
// task keeps the old name in t.Type and in the history. Its payload is decoded as the new struct. If fields were
// renamed as well, read their old names from t.Execution.Payload.
//
// A task keeps its type until it is scheduled with another type, even if Again schedules it. Keep the alias until no
// task has the old name. The ids stay, too. store.IDOf makes an id from the type, so code that schedules the renamed
// payload must set the old id in store.Task.ID to reach an existing task. Settings by type, such as pauses and
// retention, are separate for each name.
func Alias(names ...string) Option { return aliasOption(names) }

func (o aliasOption) applyTo(v *Variant) { v.aliases = append(v.aliases, o...) }

func variantOf[P store.Payload](kind Kind, bare bool) *Variant {
	variant := &Variant{Kind: kind, payload: reflect.TypeFor[P](), bare: bare}
	variant.Type, variant.Defaults = describe[P]()
	return variant
}

// describe asks P's zero value for its type and for its defaults. If P is a pointer type, it asks a pointer to a zero
// value. If TaskType panics, the type has no constant name. Then describe returns "", and NewRegistry refuses that.
func describe[P store.Payload]() (name string, defaults *store.Defaults) {
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	var zero P
	if t := reflect.TypeFor[P](); t.Kind() == reflect.Pointer {
		zero, _ = reflect.New(t.Elem()).Interface().(P)
	}
	name = zero.TaskType()
	if own, has := store.DefaultsOf(zero); has {
		defaults = &own
	}
	return name, defaults
}
