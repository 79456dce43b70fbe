package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/tasktable/tasktable/handlers"
)

// ownVariables are set by the handler.
var ownVariables = []string{
	"TASKTABLE_TASK_ID", "TASKTABLE_REVISION", "TASKTABLE_IDEMPOTENCY_KEY", "TASKTABLE_ATTEMPT", "TASKTABLE_DEADLINE",
	"TRACEPARENT", "TRACESTATE",
}

// environment is the whole environment of one attempt, and the secrets in it.
func (k *known) environment(
	ctx context.Context, e *handlers.Execution, deadline time.Time,
) (variables []string, hidden secrets, err error) {
	set := func(name, value string) { variables = append(variables, name+"="+value) }
	for name, value := range k.Environment {
		set(name, value)
	}
	for _, name := range k.Pass {
		if value, there := os.LookupEnv(name); there {
			set(name, value)
		}
	}
	hidden = secrets{}
	for name, path := range k.Secrets {
		value, err := readSecret(path)
		if err != nil {
			return nil, nil, fmt.Errorf("the file of secret %s %w", name, err)
		}
		set(name, value)
		hidden[name] = value
	}
	set("TASKTABLE_TASK_ID", e.ID)
	set("TASKTABLE_REVISION", strconv.FormatInt(e.Revision, 10))
	set("TASKTABLE_IDEMPOTENCY_KEY", e.IdempotencyKey())
	set("TASKTABLE_ATTEMPT", strconv.Itoa(e.Attempt))
	set("TASKTABLE_DEADLINE", deadline.UTC().Format(time.RFC3339))
	span := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, span)
	for _, name := range span.Keys() {
		set(strings.ToUpper(name), span.Get(name))
	}
	return variables, hidden, nil
}

// readSecret reads the file of a secret. Its errors begin with the rule, and contain the path but nothing of the file.
func readSecret(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("must be the whole path of a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && checkWriters(info) != nil {
		return "", checkWriters(info)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	value := strings.TrimRight(string(content), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	case value == "" || len(content) > maxSecret || hasNUL(value):
		return "", fmt.Errorf("must be a file of 1 to %d bytes without NUL", maxSecret)
	}
	return value, nil
}

// secrets are values that output must not show, by their names.
type secrets map[string]string

// longest is the length of the longest value, in bytes.
func (s secrets) longest() (length int) {
	for _, value := range s {
		length = max(length, len(value))
	}
	return length
}

// hide replaces the values by their names. A longer value goes first, because another may be a part of it.
func (s secrets) hide(text string) string {
	var pairs []string
	longerFirst := func(a, b string) int { return len(s[b]) - len(s[a]) }
	for _, name := range slices.SortedFunc(maps.Keys(s), longerFirst) {
		pairs = append(pairs, s[name], "["+name+"]")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// after returns where a text that is cut off at a place has to begin, so that it does not begin with the rest of a
// secret.
func (s secrets) after(text string, cut int) int {
	for again := true; again; {
		again = false
		for _, value := range s {
			for from := max(0, cut-len(value)+1); from < cut; from++ {
				if strings.HasPrefix(text[from:], value) {
					cut, again = from+len(value), true
				}
			}
		}
	}
	return cut
}
