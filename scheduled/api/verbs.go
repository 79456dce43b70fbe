package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	notice "github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// verbBody has the arguments of a verb, and selects the tasks of a verb on many. The schema of each call has those
// fields that the call takes.
type verbBody struct {
	IDs    []string   `json:"ids"`
	Filter TaskFilter `json:"filter"`
	Limit  int        `json:"limit"`
	DryRun bool       `json:"dry_run"`

	Until *time.Time `json:"until"`
	Note  string     `json:"note"`
	Over  Seconds    `json:"over"`
}

type verbInput struct {
	Conditions
	TaskPath
}

type argumentsInput struct {
	Conditions
	TaskPath
	Body *verbBody
}

type manyInput struct {
	Conditions
	Body verbBody
}

// Applied is the result of a verb on many tasks.
type Applied struct {
	Receipts []Receipt `json:"receipts" nullable:"false" doc:"One for each task, in the order of their ids."`
	Selected int       `json:"selected" doc:"How many tasks were selected."`
	More     bool      `json:"more,omitempty" doc:"The filter selects more tasks than the limit."`
}

// maxMany is how many tasks one call changes at most, because its transaction locks each of them. It is not a default
// of the schema, because generators would then require the field.
const maxMany = 1000

func (a *API) registerVerbs() {
	for _, rule := range inspect.Verbs() {
		a.registerVerb(rule)
		a.registerVerbOnMany(rule, false)
		if rule.Dead {
			a.registerVerbOnMany(rule, true)
		}
	}
}

// operationID is the name of a verb's function in clients: runTaskNow.
func operationID(rule inspect.VerbRule, noun string) string {
	first, rest, _ := strings.Cut(string(rule.Verb), "_")
	if rest != "" {
		rest = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return first + noun + rest
}

func (a *API) registerVerb(rule inspect.VerbRule) {
	op := huma.Operation{
		OperationID: operationID(rule, "Task"), Method: http.MethodPost, Path: "/v1/tasks/{id}/" + rule.Path(),
		Summary: rule.Summary, Description: "What it does to one task:\n\n" + rule.Help(),
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}
	if rule.Verb == inspect.Delete {
		op.Method, op.Path = http.MethodDelete, "/v1/tasks/{id}"
		op.Description += "\nThe answer for a task that a node has claimed is 409."
	}
	takes := slices.DeleteFunc(slices.Clone(rule.Takes), func(one string) bool { return one == "over" })
	if len(takes) == 0 {
		change(a, keys.Scope(rule.Scope), op, func(ctx context.Context, c call, in *verbInput) (*receiptAnswer, error) {
			return c.do(ctx, in.ID, in.Conditions, inspect.Action{Verb: rule.Verb})
		})
		return
	}
	op.RequestBody = a.argumentsOf(op.OperationID, takes)
	change(a, keys.Scope(rule.Scope), op, func(
		ctx context.Context, c call, in *argumentsInput,
	) (*receiptAnswer, error) {
		action, err := c.action(ctx, rule.Verb, deref(in.Body))
		if err != nil {
			return nil, err
		}
		return c.do(ctx, in.ID, in.Conditions, action)
	})
}

func (a *API) registerVerbOnMany(rule inspect.VerbRule, dead bool) {
	op := huma.Operation{
		OperationID: operationID(rule, "Tasks"), Method: http.MethodPost, Path: "/v1/tasks/" + rule.Path(),
		Summary: rule.Summary + ", many at once",
		Description: "Selects tasks by their ids or by a filter, and changes at most 1,000 of them. Call again until " +
			"no receipt comes, to change all. A filter without a status selects tasks that are " +
			inspect.StatusWords(rule.Statuses) + ". dry_run counts the tasks and changes nothing.\n\n" + rule.Help(),
	}
	scope, fields := keys.Scope(rule.Scope), inspect.FilterFields()
	if dead {
		op.OperationID, op.Path = operationID(rule, "DeadLetters"), "/v1/dead-letters/"+rule.Path()
		op.Description += "\nThe filter selects dead letters alone. {} selects all of them."
		scope, fields = keys.Operate, inspect.DeadLetterFields()
	}
	op.RequestBody = a.argumentsOf(op.OperationID, append([]string{"ids", "filter", "limit", "dry_run"}, rule.Takes...))
	changeMany(a, scope, op, func(ctx context.Context, c call, in *manyInput) (Applied, error) {
		action, err := c.action(ctx, rule.Verb, in.Body)
		if err != nil {
			return Applied{}, err
		}
		on, err := in.Body.targets(fields, dead)
		if err != nil {
			return Applied{}, err
		}
		done, err := c.inspector.Do(ctx, c.db, action, on)
		if dead {
			done.Receipts = withUnchanged(done.Receipts, on.IDs)
		}
		return Applied{each(done.Receipts, receiptOf), max(len(done.Chosen), len(done.Receipts)), done.More}, err
	})
}

// argumentsOf returns a body that takes some of the fields of verbBody.
func (a *API) argumentsOf(operation string, takes []string) *huma.RequestBody {
	schemas := a.huma.OpenAPI().Components.Schemas
	all := map[string]*huma.Schema{
		"ids": {Type: huma.TypeArray, MaxItems: new(maxMany), Items: &huma.Schema{Type: huma.TypeString},
			Description: "The tasks by their ids."},
		"filter": {Ref: TaskFilter{}.Schema(schemas).Ref},
		"limit": {Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(maxMany)),
			Description: "How many tasks of the filter at most, the first by their times. Default: 1000."},
		"dry_run": {Type: huma.TypeBoolean, Description: "Only count the tasks of the filter."},
		"until": {Type: huma.TypeString, Format: "date-time", Nullable: true,
			Description: "When the pause ends by itself. Default: it does not."},
		"note": {Type: huma.TypeString, MaxLength: new(inspect.MaxNote), Description: "What was done about them."},
		"over": {Type: huma.TypeNumber, Format: "double", Maximum: new(inspect.MaxOver.Seconds()),
			Description: "Seconds over which they become due, one after the other."},
	}
	schema := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: false}
	for _, one := range takes {
		schema.Properties[one] = all[one]
	}
	name := strings.ToUpper(operation[:1]) + operation[1:] + "Request"
	return &huma.RequestBody{Content: map[string]*huma.MediaType{
		"application/json": {Schema: named(schemas, name, schema)},
	}}
}

// toCome refuses the end of a pause that has passed by the database's clock, because the pause would hold nothing back.
func (c call) toCome(ctx context.Context, until time.Time) error {
	now, err := c.tasks.Now(ctx, c.db)
	if err == nil && !until.After(now) {
		err = invalid("until must be a time to come, and it is now " + now.UTC().Format(time.RFC3339))
	}
	return err
}

// action reads the arguments of a verb.
func (c call) action(ctx context.Context, verb inspect.Verb, b verbBody) (inspect.Action, error) {
	action := inspect.Action{Verb: verb, Note: b.Note, Over: b.Over.Duration()}
	if b.Until != nil {
		if err := c.toCome(ctx, *b.Until); err != nil {
			return action, err
		}
		action.Until = *b.Until
	}
	return action, nil
}

// targets returns the tasks that a call on many selects.
func (b verbBody) targets(fields []inspect.FilterField, dead bool) (on inspect.Targets, err error) {
	switch {
	case (len(b.IDs) > 0) == (b.Filter != nil) && dead:
		return on, invalid("body must have either ids or filter; an empty filter selects all")
	case (len(b.IDs) > 0) == (len(b.Filter) > 0) && !dead:
		return on, invalid("body must have either ids, or filter with at least one field")
	case b.DryRun && len(b.IDs) > 0:
		return on, invalid("dry_run is for a filter")
	}
	filter, err := bodyFilter(b.Filter, fields)
	if err != nil {
		return on, err
	}
	if dead {
		filter = deadFilter(filter)
	} else {
		on.Except = func(name inspect.Name) bool { return notice.Reserved(name.ID, name.Type) }
		if slices.ContainsFunc(b.IDs, func(id string) bool { return notice.Reserved(id, "") }) {
			return on, errReserved
		}
	}
	filter.Limit = cmp.Or(b.Limit, maxMany)
	if on.IDs, on.Dry = b.IDs, b.DryRun; dead || len(b.IDs) == 0 {
		on.Filter = &filter
	}
	return on, nil
}

// do applies a verb to one task if the caller sees the task and its revision is the one of the If-Match.
func (c call) do(ctx context.Context, id string, given Conditions, action inspect.Action) (*receiptAnswer, error) {
	if notice.Reserved(id, "") {
		return nil, errReserved
	}
	if given.IfNoneMatch != "" {
		return nil, errNoneMatch
	}
	if err := c.unchanged(ctx, id, given); err != nil {
		return nil, err
	}
	done, err := c.inspector.Do(ctx, c.db, action, inspect.Targets{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	switch receipt := done.Receipts[0]; receipt.Outcome {
	case store.Absent:
		return nil, errNoTask
	case store.Running:
		rule, _ := action.Verb.Rule()
		return nil, refusal(CodeTaskRunning, "the task is running; "+string(rule.First)+" it first")
	default:
		return answerOf(receipt), nil
	}
}

// withUnchanged adds a receipt for each id that is not that of a dead letter.
func withUnchanged(receipts []store.Receipt, ids []string) []store.Receipt {
	for _, id := range ids {
		if !slices.ContainsFunc(receipts, func(r store.Receipt) bool { return r.ID == id }) {
			receipts = append(receipts, store.Receipt{ID: id, Outcome: store.Unchanged})
		}
	}
	return receipts
}
