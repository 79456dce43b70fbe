package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/tracing"
	"github.com/tasktable/tasktable/store"
)

// spans are what an application and a node have traced.
type spans struct {
	T        *testing.T
	recorder *tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
}

func newSpans(t *testing.T) *spans {
	s := &spans{T: t, recorder: tracetest.NewSpanRecorder()}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.recorder))
	return s
}

func (s *spans) on(c *Config) { c.Tracer = s.provider }

// within runs something in a span of the application's, and returns that span.
func (s *spans) within(ctx context.Context, name string, do func(ctx context.Context)) trace.SpanContext {
	ctx, span := s.provider.Tracer("application").Start(ctx, name)
	defer span.End()
	do(ctx)
	return span.SpanContext()
}

// of waits for that many ended executions of a task, and returns their spans in the order of their beginning.
func (s *spans) of(id string, n int) (found []sdktrace.ReadOnlySpan) {
	s.T.Helper()
	enginetest.Eventually(s.T, patience, fmt.Sprintf("%d spans of task %s", n, id), func() bool {
		found = nil
		for _, span := range s.recorder.Ended() {
			if attributes(span)["messaging.message.id"] == id {
				found = append(found, span)
			}
		}
		return len(found) >= n
	})
	if len(found) > n {
		s.T.Errorf("%d spans of task %s, want %d", len(found), id, n)
	}
	return found
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, attribute := range span.Attributes() {
		found[string(attribute.Key)] = attribute.Value.String()
	}
	return found
}

// link is the single link of a span; the test fails if there are more, or none, or if the span is not a root.
func (s *spans) link(span sdktrace.ReadOnlySpan) trace.SpanContext {
	s.T.Helper()
	if span.Parent().IsValid() || len(span.Links()) != 1 {
		s.T.Errorf("span %s has the parent %v and the links %v", span.Name(), span.Parent(), span.Links())
		return trace.SpanContext{}
	}
	return span.Links()[0].SpanContext
}

// linked fails the test unless the span links to that one.
func (s *spans) linked(span sdktrace.ReadOnlySpan, to trace.SpanContext) {
	s.T.Helper()
	if got := s.link(span); got.TraceID() != to.TraceID() || got.SpanID() != to.SpanID() || !got.IsRemote() {
		s.T.Errorf("the span of task %s links to %v, want %v", attributes(span)["messaging.message.id"], got, to)
	}
	if span.SpanContext().TraceID() == to.TraceID() {
		s.T.Errorf("the span of task %s is in the trace that it links to", attributes(span)["messaging.message.id"])
	}
}

// A trace from the scheduling to the execution, and from there to what the handler does and schedules.
func TestTraceFromScheduleToExecution(t *testing.T) {
	s, traced := newBench(t), newSpans(t)
	s.node(traced.on, handlers.Handle(func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		if task.ID != "first" {
			return nil
		}
		traced.within(ctx, "call", func(context.Context) {})
		task.FollowUp(store.Task{ID: "follow-up", Payload: enginetest.Job{Name: "follow-up"}})
		task.FollowUp(store.Task{ID: "later", Payload: enginetest.Job{Name: "later"}, At: time.Now().Add(time.Hour)})
		_, err := s.Tasks.Schedule(ctx, s.Pool, store.Task{ID: "scheduled", Payload: enginetest.Job{Name: "scheduled"}})
		return err
	}))
	scheduling := traced.within(t.Context(), "request", func(ctx context.Context) {
		_, err := s.Tasks.Schedule(ctx, s.Pool, store.Task{ID: "first", Payload: enginetest.Job{Name: "first"}})
		if err != nil {
			t.Error(err)
		}
	})

	row := s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	first := traced.of("first", 1)[0]
	traced.linked(first, scheduling)
	if first.Name() != "JOB" || first.SpanKind() != trace.SpanKindConsumer || first.Status().Code != codes.Unset {
		t.Errorf("span %s of kind %s, status %v", first.Name(), first.SpanKind(), first.Status())
	}
	got := attributes(first)
	if got["tasktable.delay"] == "" || got["tasktable.node"] == "0" {
		t.Errorf("attributes %v", got)
	}
	delete(got, "tasktable.delay")
	delete(got, "tasktable.node")
	want := map[string]string{
		"messaging.system": "tasktable", "messaging.operation.type": "process", "messaging.destination.name": "default",
		"messaging.message.id": "first", "tasktable.type": "JOB", "tasktable.revision": fmt.Sprint(row.Revision),
		"tasktable.attempt": "1", "tasktable.outcome": "COMPLETED",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
	for _, span := range traced.recorder.Ended() {
		if span.Name() == "call" && span.Parent().SpanID() != first.SpanContext().SpanID() {
			t.Errorf("what the handler called is a child of %v", span.Parent())
		}
	}
	for _, id := range []string{"follow-up", "scheduled"} {
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
		traced.linked(traced.of(id, 1)[0], first.SpanContext())
	}
	if row := enginetest.Await(
		t, s.Pool, "later", time.Second, store.StatusQueued,
	); store.SpanOf(taskdb.TextOf(row.Trace)).SpanID() != first.SpanContext().SpanID() {
		t.Errorf("a follow-up that is not due links to %v", row.Trace)
	}
}

// Every kind of handler is traced, with its transaction; so are retries, each of which links to the scheduling.
func TestTraceOfEachKindAndAttempt(t *testing.T) {
	s, traced := newBench(t), newSpans(t)
	twice := func(e *handlers.Execution) error {
		if e.Attempt == 1 {
			return errors.New("the payload says: canary")
		}
		e.FollowUp(store.Task{ID: e.ID + " after", Payload: enginetest.Job{Name: "after"}})
		return nil
	}
	s.node(traced.on,
		handlers.Func("JOB", func(context.Context) error { return nil }),
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[tracedPgx]) error {
			if !trace.SpanFromContext(ctx).IsRecording() {
				t.Error("the handler's context has no span")
			}
			return twice(task.Execution)
		}),
		handlers.HandleSQLTx(func(_ context.Context, _ *sql.Tx, task *handlers.Task[tracedSQL]) error {
			return twice(task.Execution)
		}))
	scheduling := traced.within(t.Context(), "request", func(ctx context.Context) {
		_, err := s.Tasks.ScheduleMany(ctx, s.Pool, []store.Task{
			{ID: "pgx", Payload: tracedPgx{}}, {ID: "sql", Payload: tracedSQL{}},
		})
		if err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"pgx", "sql"} {
		s.Is(id, store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
		both := traced.of(id, 2)
		for i, want := range []string{"RETRIED Error RETRIED 1", "COMPLETED Unset  2"} {
			traced.linked(both[i], scheduling)
			has := attributes(both[i])
			if got := fmt.Sprint(
				has["tasktable.outcome"], " ", both[i].Status().Code, " ", both[i].Status().Description, " ",
				has["tasktable.attempt"],
			); got != want {
				t.Errorf("attempt %d of %s: %s, want %s", i+1, id, got, want)
			}
		}
		s.Is(id+" after", store.StatusCompleted, taskdb.OutcomeCompleted)
		traced.linked(traced.of(id+" after", 1)[0], both[1].SpanContext())
	}
}

type (
	tracedPgx struct{}
	tracedSQL struct{}
)

func (tracedPgx) TaskType() string { return "TRACED_PGX" }
func (tracedSQL) TaskType() string { return "TRACED_SQL" }

// Again links the next run to the one before; an occurrence links to where its recurring task was scheduled.
func TestTraceOfChainsAndOccurrences(t *testing.T) {
	s, traced, past := newBench(t), newSpans(t), time.Now().Add(-time.Hour)
	s.node(traced.on, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		if task.ID == "chain" && task.ScheduledAt.Before(past) {
			task.Again(past.Add(time.Minute))
		}
		return nil
	}))
	scheduling := traced.within(t.Context(), "request", func(ctx context.Context) {
		_, err := s.Tasks.ScheduleMany(ctx, s.Pool, []store.Task{
			{ID: "chain", Payload: enginetest.Job{Name: "chain"}, At: past.Add(-time.Hour)},
			{
				ID: "daily", Payload: enginetest.Job{Name: "daily"}, At: time.Now().Add(time.Hour),
				Recurrence: &store.Recurrence{Cron: "@daily"},
			},
		})
		if err == nil {
			_, err = s.Tasks.RunNow(context.WithoutCancel(t.Context()), s.Pool, "daily") // in no span of its own
		}
		if err != nil {
			t.Error(err)
		}
	})
	both := traced.of("chain", 2)
	traced.linked(both[0], scheduling)
	traced.linked(both[1], both[0].SpanContext())

	occurrence := enginetest.Ask[string](s.Bench, `SELECT id FROM tasktable.scheduled_tasks WHERE parent_id = 'daily'`)
	traced.linked(traced.of(occurrence, 1)[0], scheduling)
}

// What went wrong is told by its class alone: the text may hold what is in the payload.
func TestTracesHaveNoTextOfErrors(t *testing.T) {
	s, traced := newBench(t), newSpans(t)
	const canary = "canary of a payload"
	s.node(traced.on, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		switch task.ID {
		case "panics":
			panic(task.Payload.Name)
		case "gives up":
			return handlers.Permanent(errors.New(task.Payload.Name))
		case "waits":
			return handlers.Snooze(time.Hour)
		}
		task.Note("%s", task.Payload.Name)
		task.Result(task.Payload.Name)
		return nil
	}))
	for id, want := range map[string]string{
		"panics": "FAILED Error panic", "gives up": "FAILED Error FAILED", "waits": "SNOOZED Unset ",
		"does": "COMPLETED Unset ",
	} {
		s.Add(id, func(task *store.Task) { task.Payload, task.MaxAttempts = enginetest.Job{Name: canary}, 1 })
		span := traced.of(id, 1)[0]
		if got := fmt.Sprint(
			attributes(span)["tasktable.outcome"], " ", span.Status().Code, " ", span.Status().Description,
		); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		if len(span.Links()) != 0 {
			t.Errorf("%s was scheduled in no span, and links to %v", id, span.Links())
		}
	}
	for _, span := range traced.recorder.Ended() {
		if text := fmt.Sprint(
			span.Name(), span.Status(), attributes(span), span.Events(),
		); strings.Contains(text, canary) {
			t.Errorf("a span tells: %s", text)
		}
	}
}

// Without a Tracer there are no spans. The handler and its follow-ups carry the span in which the task was scheduled. An
// occurrence does not, because its trace would grow for as long as the recurring task fires.
func TestNoTracerCarriesTheSpan(t *testing.T) {
	s, traced := newBench(t), newSpans(t)
	type sight struct{ scheduledIn, carried trace.SpanContext }
	seen := make(chan sight, 2)
	s.node(nil, handlers.Handle(func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		seen <- sight{task.ScheduledIn, trace.SpanContextFromContext(ctx)}
		if task.ID != "a" {
			return nil
		}
		task.FollowUp(store.Task{
			ID: "follow-up", Payload: enginetest.Job{Name: "follow-up"}, At: time.Now().Add(time.Hour),
		})
		return nil
	}))
	scheduling := traced.within(t.Context(), "request", func(ctx context.Context) {
		if _, err := s.Tasks.Schedule(ctx, s.Pool, store.Task{
			ID: "a", Payload: enginetest.Job{Name: "a"},
		}); err != nil {
			t.Error(err)
		}
		if _, err := s.Tasks.Schedule(ctx, s.Pool, store.Task{
			ID: "daily", Payload: enginetest.Job{Name: "daily"}, At: time.Now().Add(time.Hour),
			Recurrence: &store.Recurrence{Cron: "@daily"},
		}); err != nil {
			t.Error(err)
		}
	})
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	if got := <-seen; got.scheduledIn.SpanID() != scheduling.SpanID() ||
		got.carried.TraceID() != scheduling.TraceID() || got.carried.SpanID() != scheduling.SpanID() {
		t.Errorf("the handler is told of %v and carries %v", got.scheduledIn, got.carried)
	}
	row := enginetest.Await(t, s.Pool, "follow-up", patience, store.StatusQueued)
	if got := store.SpanOf(taskdb.TextOf(row.Trace)); got.SpanID() != scheduling.SpanID() {
		t.Errorf("the follow-up carries %v", got)
	}
	s.Did(s.Tasks.RunNow(t.Context(), s.Pool, "daily"))
	if got := <-seen; got.scheduledIn.SpanID() != scheduling.SpanID() || got.carried.IsValid() {
		t.Errorf("the handler of an occurrence is told of %v and carries %v", got.scheduledIn, got.carried)
	}
	if n := len(traced.recorder.Ended()); n != 1 {
		t.Errorf("%d spans, not the application's alone", n)
	}
}

func TestTracingThatIsOffCostsNothing(t *testing.T) {
	ctx, e := t.Context(), &handlers.Execution{}
	off := tracing.New(nil, 7)
	if n := testing.AllocsPerRun(100, func() { off.End(off.Begin(ctx, e), "", nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
