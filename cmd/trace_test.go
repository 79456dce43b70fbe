package cmd

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tasktable/tasktable/store/storetest"
)

const tracedBy = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// What was scheduled in a trace is executed in one that links to it, and both the collector and the log are told of
// it. A bad answer of the collector changes nothing for the tasks.
func TestServeExportsSpans(t *testing.T) {
	t.Parallel()
	requests := make(chan *collected.ExportTraceServiceRequest, 10)
	paths := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collected.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &request) != nil {
			t.Errorf("not understood: %v %q", err, body)
		}
		paths <- r.URL.Path + " " + r.Header.Get("Api-Key")
		requests <- &request
		w.WriteHeader(http.StatusBadRequest) // for good: what was sent is not sent again
	}))
	defer collector.Close()
	url := storetest.URL(t)
	p := start(t, []string{"DATABASE_URL=" + url, "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL,
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=" + mailCanary,
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment=test", "OTEL_BSP_SCHEDULE_DELAY=3600000",
		"TASKTABLE_LOG_FORMAT=json"},
		"serve", "--service=nightly")
	p.waitFor(`"msg":"serving"`)
	execute(
		t, url,
		`SELECT tasktable.schedule('{"type":"LOG","message":"`+payloadCanary+`"}', id => 'traced', trace => '`+tracedBy+
			`')`,
	)
	ask(t, url, "SELECT status FROM tasktable.scheduled_tasks WHERE id = 'traced'", "COMPLETED")
	got := p.stop(`"msg":"spans not exported"`)

	if len(requests) == 0 { // the end has sent off what was left
		t.Fatal("no spans came")
	}
	if path := <-paths; path != "/v1/traces "+mailCanary {
		t.Errorf("sent to %s", path)
	}
	request := <-requests
	if len(request.GetResourceSpans()) != 1 || len(request.GetResourceSpans()[0].GetScopeSpans()) != 1 {
		t.Fatalf("got %v", request)
	}
	of := request.GetResourceSpans()[0]
	about := strings.Join(attributesOf(of.GetResource().GetAttributes()), " ")
	if !strings.Contains(about, "service.name=nightly") || !strings.Contains(about, "deployment.environment=test") {
		t.Errorf("the resource is %s", about)
	}
	span := of.GetScopeSpans()[0].GetSpans()[0]
	if span.GetName() != "LOG" || len(span.GetLinks()) != 1 ||
		hex.EncodeToString(span.GetLinks()[0].GetSpanId()) != tracedBy[36:52] {
		t.Errorf("span %v", span)
	}
	if line := `"task_id":"traced"`; !strings.Contains(got.stderr, line) ||
		!strings.Contains(got.stderr, `"trace_id":"`+hex.EncodeToString(span.GetTraceId())+`"`) {
		t.Errorf("the log has no line of the trace:\n%s", got.stderr)
	}
	noCanary(t, "the collector", request.String())
	noCanary(t, "the log", strings.ReplaceAll(got.stderr, `"msg":"`+payloadCanary+`"`, "")) // LOG's own
}

func attributesOf(attributes []*commonpb.KeyValue) (found []string) {
	for _, one := range attributes {
		found = append(found, one.GetKey()+"="+one.GetValue().GetStringValue())
	}
	return found
}

// These settings are right: the database is looked for, and is unreachable. testdata/usage.txt has wrong ones.
func TestWhereSpansGo(t *testing.T) {
	t.Parallel()
	const here = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	for name, variables := range map[string][]string{
		"nowhere":  nil,
		"none":     {here, "OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"disabled": {"OTEL_EXPORTER_OTLP_ENDPOINT=wrong", "OTEL_SDK_DISABLED=True"},
		"here":     {here},
		"of traces": {"OTEL_EXPORTER_OTLP_ENDPOINT=wrong",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1"},
		"JSON": {here, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, append([]string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, variables...), "serve").want(t, exitUnreachable)
		})
	}
}

// A line that is logged in a span has its ids, also where the logger has attributes or a group; another is as ever.
func TestLogLinesHaveTheirSpan(t *testing.T) {
	t.Parallel()
	ctx := trace.ContextWithSpanContext(t.Context(),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	const ids = "trace_id=01000000000000000000000000000000 span_id=0200000000000000"
	for _, test := range []struct {
		ctx  context.Context
		with func(*slog.Logger) *slog.Logger
		want string
	}{
		{t.Context(), func(l *slog.Logger) *slog.Logger { return l }, "msg=hi a=1"},
		{ctx, func(l *slog.Logger) *slog.Logger { return l }, "msg=hi a=1 " + ids},
		{ctx, func(l *slog.Logger) *slog.Logger { return l.With("node", 7) }, "msg=hi node=7 a=1 " + ids},
		{ctx, func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
			"msg=hi g.a=1 g." + strings.Replace(ids, "span", "g.span", 1)},
	} {
		var out bytes.Buffer
		logger := (&logSettings{format: "text", level: "info"}).logger(&out)
		test.with(logger).InfoContext(test.ctx, "hi", "a", 1)
		test.with(logger).DebugContext(test.ctx, "not at this level")
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "level=INFO "); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	var out bytes.Buffer
	(&logSettings{format: "json", level: "info"}).logger(&out).InfoContext(ctx, "hi")
	if want := fmt.Sprintf("%q:%q", "trace_id", "01000000000000000000000000000000"); !strings.Contains(out.String(),
		want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}
