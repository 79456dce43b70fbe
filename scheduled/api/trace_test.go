package api_test

import (
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// A task keeps the span of the call that scheduled it. The call's span is a child of the caller's.
func TestTraces(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	s := newService(t, func(c *api.Config) {
		c.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	})
	s.wants(http.StatusCreated, "all", "PUT", "/v1/tasks/a", hello, "Traceparent", traceparent)
	s.wants(http.StatusNotFound, "all", "GET", "/v1/tasks/none", "")
	ended := spans.GetSpans()
	if len(ended) != 2 || ended[0].Name != "PUT /v1/tasks/{id}" || ended[1].Name != "GET /v1/tasks/{id}" {
		t.Fatalf("spans %+v", ended)
	}
	if kept := store.SpanOf(*s.row("a").Trace); kept.SpanID() != ended[0].SpanContext.SpanID() ||
		kept.TraceID().String() != traceID || ended[0].Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("the task keeps %v; the span is %+v", kept, ended[0])
	}
}

func TestTraceOfTheCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(http.StatusCreated, "all", "PUT", "/v1/tasks/a", hello, "Traceparent", traceparent)
	if got := s.row("a").Trace; got == nil || *got != traceparent {
		t.Errorf("the task keeps %v", got)
	}
	s.wants(http.StatusCreated, "all", "PUT", "/v1/tasks/b", hello, "Traceparent", "nonsense")
	if got := s.row("b").Trace; got != nil {
		t.Errorf("the task keeps %s", *got)
	}
}
