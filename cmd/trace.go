package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/cmd/internal/options"
)

// flushLimit is how long the last spans may take at the end.
const flushLimit = 5 * time.Second

// traceVariables say where spans go, and how. They are the standard variables of OpenTelemetry and no options of this
// program. The SDK reads them and the others (headers, certificates, sampler, sizes of batches) itself. It replaces a
// value that it cannot read by its default, which for an endpoint is one on this machine. So the important ones are
// checked here.
type traceVariables struct{ getenv func(name string) string }

// first is the first of the variables that is set, and its value.
func (v traceVariables) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := v.getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// on reports whether spans are sent. Without an endpoint they are not, although the SDK would choose one.
func (v traceVariables) on() (bool, error) {
	variable, endpoint := v.first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" || strings.EqualFold(v.getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch v.getenv("OTEL_TRACES_EXPORTER") {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, options.Usage("OTEL_TRACES_EXPORTER must be otlp or none")
	}
	if at, err := url.Parse(endpoint); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		// not quoted, because it may contain a password
		return false, options.Usage("%s must be a URL such as http://localhost:4318", variable)
	}
	variable, protocol := v.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch protocol {
	case "", "http/protobuf", "http/json":
		return true, nil
	}
	return false, options.Usage("%s must be http/protobuf or http/json: this program does not speak OTLP by gRPC",
		variable)
}

// tracer makes the spans of a node and sends them in batches. It is nil without an endpoint. stop sends the rest.
func (p *program) tracer(ctx context.Context, service string, logger *slog.Logger) (tracer trace.TracerProvider,
	stop func(), err error) {
	on, err := traceVariables{p.Getenv}.on()
	if err != nil || !on {
		return nil, func() {}, err
	}
	// The SDK would print its errors itself, such as that nothing receives the spans.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("spans not exported", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(logger.Handler()))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export spans: %w", err)
	}
	if service == "" {
		service = "tasktable"
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", service),
			attribute.String("service.version", version())), resource.WithFromEnv())
	if err != nil { // attributes that cannot be read: it has the others
		logger.Warn("OTEL_RESOURCE_ATTRIBUTES is not as it must be", "error", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit) // after the signal
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("the last spans were not exported", "error", err)
		}
	}, nil
}
