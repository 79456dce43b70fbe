package store

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxTrace is how long the column trace may be.
const maxTrace = 512

// TraceOf is the span of ctx as the column trace has it: its W3C traceparent and, behind a space, its tracestate,
// which is left out where the two are longer than 512 bytes together. "" where ctx has no span, or one that is not
// sampled: nobody could follow a link to it.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	var fields traceFields
	propagation.TraceContext{}.Inject(ctx, &fields) // leaves it empty for a span without ids
	if fields.parent == "" || fields.state == "" || len(fields.parent)+1+len(fields.state) > maxTrace {
		return fields.parent
	}
	return fields.parent + " " + fields.state
}

// SpanOf is the span of which TraceOf, or a caller of the SQL functions, made the text; an invalid one of anything
// else.
func SpanOf(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	var fields traceFields
	fields.parent, fields.state, _ = strings.Cut(text, " ")
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), &fields))
}

// traceFields are the two headers of W3C Trace Context.
type traceFields struct{ parent, state string }

func (f *traceFields) field(name string) *string {
	if name == "traceparent" {
		return &f.parent
	}
	return &f.state
}

func (f *traceFields) Get(name string) string { return *f.field(name) }
func (f *traceFields) Set(name, value string) { *f.field(name) = value }
func (f *traceFields) Keys() []string         { return []string{"traceparent", "tracestate"} }
