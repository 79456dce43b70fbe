// Package tracing makes an OpenTelemetry span of each attempt.
package tracing

import (
	"context"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Tracing makes a span of each attempt. A nil *Tracing makes none, and hands on the span of the task's author.
type Tracing struct {
	tracer trace.Tracer
	node   int64
}

// New makes the tracing of a node. It returns nil if provider is nil.
func New(provider trace.TracerProvider, node int64) *Tracing {
	if provider == nil {
		return nil
	}
	return &Tracing{tracer: provider.Tracer("github.com/tasktable/tasktable/scheduled"), node: node}
}

// Begin begins the span of an attempt, and returns its context. The span is a root, and links to the span in which
// the task was scheduled. As a child of that span, it could weeks later keep a trace open that ended long ago.
func (t *Tracing) Begin(ctx context.Context, e *handlers.Execution) context.Context {
	if t == nil {
		return carried(ctx, e)
	}
	// These are OpenTelemetry's names for messaging, and our own names where OpenTelemetry has none.
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "tasktable"), attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", e.Queue), attribute.String("messaging.message.id", e.ID),
			attribute.String("tasktable.type", e.Type), attribute.Int64("tasktable.node", t.node),
			attribute.Int64("tasktable.revision", e.Revision), attribute.Int("tasktable.attempt", e.Attempt),
			// seconds from when the attempt was due until the gate let it through
			attribute.Float64("tasktable.delay", e.StartedAt.Sub(e.DueAt).Seconds()),
		),
	}
	if e.ScheduledIn.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: e.ScheduledIn}))
	}
	ctx, _ = t.tracer.Start(ctx, e.Type, options...)
	e.WithSpan(ctx)
	return ctx
}

// occurrence matches the ids of occurrences.
var occurrence = regexp.MustCompile(`@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$`)

// carried returns ctx with the span in which the task was scheduled. So a request that the handler sends has the trace
// id of the task's author, also if the node has no tracer. An occurrence does not carry the span of its recurring task,
// because one trace would then grow for years.
func carried(ctx context.Context, e *handlers.Execution) context.Context {
	if !e.ScheduledIn.IsValid() || occurrence.MatchString(e.ID) {
		return ctx
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, e.ScheduledIn)
	e.WithSpan(ctx)
	return ctx
}

// End ends the span of ctx, and adds the outcome of the attempt. The span does not contain the error's text, because
// that may hold parts of the payload. Spans go to places that the database's rights do not protect.
func (t *Tracing) End(ctx context.Context, outcome string, err error) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("tasktable.outcome", outcome))
	if outcome == taskdb.OutcomeFailed || outcome == taskdb.OutcomeRetried {
		why := outcome
		//nolint:errorlint // a handler's error may panic when it is asked
		if _, panicked := err.(*handlers.PanicError); panicked {
			why = "panic"
		}
		span.SetStatus(codes.Error, why)
	}
	span.End()
}
