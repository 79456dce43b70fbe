package api

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// startSpan begins the span of a call. Its parent is the span in the header traceparent. A task that the call schedules
// keeps the span, and the spans of its attempts link to it. Without a tracer the task keeps the span of the header.
func (a *API) startSpan(r *http.Request) (context.Context, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	if a.config.Tracer == nil {
		return ctx, nil
	}
	// The path has the ids of tasks, so the name of the span has the route instead, once it is known.
	return a.config.Tracer.Tracer("github.com/tasktable/tasktable/scheduled/api").Start(ctx, r.Method,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method)))
}

// endSpan ends the span of a call. route is the pattern of the path, or "" if there was none.
func endSpan(span trace.Span, route string, status int) {
	if span == nil {
		return
	}
	if route != "" {
		span.SetName(route)
		span.SetAttributes(attribute.String("http.route", route))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}
