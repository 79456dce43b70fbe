package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// call is what an endpoint works with.
type call struct {
	*author
	config Config
	schema store.Schema
	caller Caller
	db     store.DB // the pool, or the call's transaction
	// batches is db for several statements in one round trip.
	batches batcher
	crew    *crewSeen // nil: nothing is known
}

// register adds an endpoint that needs the scope.
func register[I, O any](a *API, scope keys.Scope, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	op.Tags = []string{tagOf(op.Path)}
	op.Metadata = map[string]any{"scope": scope}
	op.Security = []map[string][]string{{"key": {}}}
	op.Description += fmt.Sprintf("\n\nNeeds the scope `%s`.", scope)
	op.Errors = append(op.Errors, 400, 401, 403, 422, 429, 503)
	// authenticate has read the body already, and has bounded it. huma's limit is one byte lower. Its deadline for
	// reading would end the call: net/http reads on, to notice that the client is gone.
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err = a.answer(ctx, err); err != nil {
			return nil, err
		}
		return out, nil
	})
}

// tagOf is the group of an operation in the document.
func tagOf(path string) string {
	switch noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/"); noun {
	case "tasks", "events":
		return "tasks"
	case "recurring", "calendars":
		return "recurring"
	case "dead-letters":
		return "dead letters"
	}
	return "operations"
}

// bodyOnly is an answer without headers of its own.
type bodyOnly[B any] struct{ Body B }

// read adds an endpoint that changes nothing, and whose answer is a body that has a bound. A caller with a tenant reads
// in a transaction, in which its role holds.
func read[I, B any](a *API, op huma.Operation, do func(context.Context, call, *I) (B, error)) {
	register(a, keys.Read, op, func(ctx context.Context, in *I) (*bodyOnly[B], error) {
		return readOnly(ctx, a, func(ctx context.Context, c call) (*bodyOnly[B], error) {
			c.db = bounded{c.db, answerBytes}
			body, err := do(ctx, c, in)
			return &bodyOnly[B]{body}, err
		})
	})
}

// readOnly calls do for the caller of ctx, within the time limit.
func readOnly[O any](ctx context.Context, a *API, do func(context.Context, call) (*O, error)) (*O, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	caller := callerOf(ctx)
	return run(ctx, a, caller, pgx.TxOptions{AccessMode: pgx.ReadOnly}, caller.Tenant != "", asked{},
		func(c call) (*O, error) { return do(ctx, c) })
}

// readAll adds a reading endpoint about all tenants, which a caller with a tenant may not use.
func readAll[I, B any](a *API, op huma.Operation, do func(context.Context, call, *I) (B, error)) {
	refusing := forAll(&op, do)
	read(a, op, refusing)
}

// changeAll adds a changing endpoint about all tenants, which a caller with a tenant may not use.
func changeAll[I, B any](a *API, op huma.Operation, do func(context.Context, call, *I) (B, error)) {
	refusing := forAll(&op, do)
	changeMany(a, keys.Operate, op, refusing)
}

// forAll says in the description of an operation that it is about all tenants, and refuses a caller with a tenant.
func forAll[I, B any](
	op *huma.Operation, do func(context.Context, call, *I) (B, error),
) func(context.Context, call, *I) (B, error) {
	op.Description = strings.TrimSpace(op.Description + " A key of a tenant may not use it.")
	return func(ctx context.Context, c call, in *I) (body B, err error) {
		if c.caller.Tenant != "" {
			return body, errAllTenants
		}
		return do(ctx, c, in)
	}
}

// changeMany adds a changing endpoint that is not on one task, so that conditions on a task are refused.
func changeMany[I, B any](
	a *API, scope keys.Scope, op huma.Operation, do func(context.Context, call, *I) (B, error),
) {
	change(a, scope, op, func(ctx context.Context, c call, in *I) (*bodyOnly[B], error) {
		if any(in).(changing).conditions().any() {
			return nil, refusal(CodeBadCondition, "If-Match and If-None-Match are for a call on one task")
		}
		body, err := do(ctx, c, in)
		return &bodyOnly[B]{body}, err
	})
}

// changing is the input of a changing endpoint.
type changing interface {
	conditions() Conditions
	// reads reports whether the call reads a task before or after it writes it, so that it needs a transaction.
	reads() bool
}

// change adds an endpoint that changes tasks.
func change[I, O any](
	a *API, scope keys.Scope, op huma.Operation, do func(context.Context, call, *I) (*O, error),
) {
	op.Errors = append(op.Errors, 409, 413)
	if _, found := reflect.TypeFor[I]().FieldByName("Body"); found {
		op.Errors = append(op.Errors, 415)
	}
	register(a, scope, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
		defer cancel()
		caller, input := callerOf(ctx), any(in).(changing)
		given := input.conditions()
		if !utf8.ValidString(given.IdempotencyKey) {
			return nil, huma.Error422UnprocessableEntity("validation failed",
				&huma.ErrorDetail{Location: "header.Idempotency-Key", Message: "expected UTF-8"})
		}
		asked := asked{caller: caller.Name, key: given.IdempotencyKey, hash: requestHash(ctx, caller)}
		seen := a.crew.look(ctx, a) // before the call has a connection of its own
		inTx := input.reads() || caller.Tenant != "" || caller.bound() || asked.key != "" || given.any()
		return run(ctx, a, caller, pgx.TxOptions{}, inTx, asked, func(c call) (*O, error) {
			c.crew = seen
			return do(ctx, c, in)
		})
	})
}

// run calls do, in a transaction if inTx says so. For a caller with a tenant the transaction takes the tenant's role.
func run[O any](
	ctx context.Context, a *API, caller Caller, options pgx.TxOptions, inTx bool, asked asked,
	do func(call) (*O, error),
) (out *O, err error) {
	c := call{author: a.author(caller), config: a.config, schema: a.answers.schema, caller: caller,
		db: a.config.Pool, batches: a.config.Pool}
	if !inTx {
		return do(c)
	}
	err = pgx.BeginTxFunc(ctx, a.config.Pool, options, func(tx pgx.Tx) error {
		c.db, c.batches = tx, tx
		out, err = once(ctx, a.answers, tx, asked, func() (*O, error) {
			if caller.bound() {
				if err := a.config.Keys.Bind(ctx, tx, caller.Types, caller.Queues); err != nil {
					return nil, err
				}
			}
			return asTenant(ctx, a.config.Keys, tx, caller.Tenant, func() (*O, error) { return do(c) })
		})
		return err
	})
	return out, err
}

// asTenant calls do with the role of tenants. Afterwards it puts the role back, so that the answer can be stored.
// Without a tenant it only calls do.
func asTenant[O any](
	ctx context.Context, k *keys.Keys, tx pgx.Tx, tenant string, do func() (*O, error),
) (*O, error) {
	if tenant == "" {
		return do()
	}
	if err := k.Enter(ctx, tx, tenant); err != nil {
		return nil, err
	}
	out, err := do()
	if err != nil {
		return nil, err // the transaction is rolled back, and with it the role
	}
	return out, k.Leave(ctx, tx)
}

// bound reports whether the caller may change tasks of some types or queues alone.
func (c Caller) bound() bool { return len(c.Types)+len(c.Queues) > 0 }

type callerKey struct{}

func callerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// authenticate lets a call pass whose caller is known, has the operation's scope, and has not called too often. Only
// then it reads the body, so that nobody without a key can fill the memory.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	noted := exchangeOf(ctx.Context())
	noted.operation = ctx.Operation().OperationID
	scope, needed := ctx.Operation().Metadata["scope"].(keys.Scope)
	if !needed {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	caller, err := a.config.Authenticate(r)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		noted.caller = caller.Name // of a key that was revoked, so that the log tells who still uses it
		ctx.SetHeader("WWW-Authenticate", `Bearer realm="tasktable"`)
		a.refuse(ctx, CodeUnauthenticated, "the call needs a key that is valid: Authorization: Bearer <key>")
		return
	case err != nil:
		a.config.Logger.Error("a caller could not be authenticated", "error", err)
		a.refuse(ctx, CodeKeyUnchecked, "the key cannot be checked now")
		return
	}
	noted.caller = caller.Name
	rate := caller.Rate
	if rate == 0 {
		rate = a.config.CallerRate
	}
	if wait := a.callers.Take(caller.Name, rate); !a.withinRate(ctx, rate, wait) {
		return
	}
	if !slices.Contains(caller.Scopes, scope) {
		a.refuse(ctx, CodeScopeMissing, fmt.Sprintf("the key lacks the scope %s", scope))
		return
	}
	if refused := checkQuery(r.URL.RawQuery, ctx.Operation().Parameters); refused != nil {
		a.refuse(ctx, refused.Code, refused.Detail)
		return
	}
	give, refused := a.shares.take(ctx.Operation(), r, caller.Name)
	if refused != nil {
		a.refuse(ctx, refused.Code, refused.Detail)
		return
	}
	defer give()
	noted.request = r
	if refused := readBody(w, r, noted, a.huma.OpenAPI().Components.Schemas, bodyOf(ctx.Operation())); refused != nil {
		a.refuse(ctx, refused.Code, refused.Detail)
		return
	}
	end, refused := a.shares.turn(r, caller.Name)
	if refused != nil {
		a.refuse(ctx, refused.Code, refused.Detail)
		return
	}
	defer end()
	next(huma.WithValue(ctx, callerKey{}, caller))
}

// askAgain returns an error if the caller of a call that takes long is no longer the one that it was. Somebody may have
// revoked its key, or the key may have expired.
func (a *API) askAgain(ctx context.Context) error {
	caller, err := a.config.Authenticate(exchangeOf(ctx).request)
	switch {
	case err == nil && reflect.DeepEqual(caller, callerOf(ctx)):
		return nil
	case err == nil || errors.Is(err, ErrUnauthenticated):
		return refusal(CodeUnauthenticated, "the key is no longer valid, or no longer allows this")
	}
	a.config.Logger.Error("a caller could not be authenticated again", "error", err)
	return refusal(CodeKeyUnchecked, "the key cannot be checked now")
}

func (a *API) refuse(ctx huma.Context, code Code, detail string) {
	_, w := humago.Unwrap(ctx)
	writeProblem(w, code, detail)
}
