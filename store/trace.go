package store

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxTrace is the maximum length of the column trace, in bytes.
const maxTrace = 512

// TraceOf returns the span of ctx as the column trace holds it: its W3C traceparent, a space and its tracestate. The
// tracestate is left out if both together are longer than 512 bytes. TraceOf returns "" if ctx has no span, or a span
// that is not sampled, because nobody could follow a link to it. It is for engines.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	var fields traceFields
	propagation.TraceContext{}.Inject(ctx, &fields) // leaves the fields empty if the span has no ids
	if fields.parent == "" || fields.state == "" || len(fields.parent)+1+len(fields.state) > maxTrace {
		return fields.parent
	}
	return fields.parent + " " + fields.state
}

// SpanOf parses a text that TraceOf, or a caller of the SQL functions, made. For any other text it returns an invalid
// SpanContext. It is for engines.
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
