package cmd

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestUnknownVariablesAreWarnedOf(t *testing.T) {
	for _, test := range []struct {
		entry string
		want  string // in the warning; "": none
	}{
		{"TASKTABLE_POL_INTERVAL=5s", "variable=TASKTABLE_POL_INTERVAL did_you_mean=TASKTABLE_POLL_INTERVAL"},
		{"TASKTABLE_QUEUE=a=1", "did_you_mean=TASKTABLE_QUEUES"},
		{"TASKTABLE_SMTP_PASWORD=secret", "did_you_mean=TASKTABLE_SMTP_PASSWORD"},
		{"TASKTABLE_ZZZZZZZZZZZZZZZZZ=1", `did_you_mean=""`},
		{"TASKTABLE_POLL_INTERVAL=5s", ""},
		{"TASKTABLE_POL_INTERVAL=", ""},
		{"OTHER_POL_INTERVAL=5s", ""},
		{"TASKTABLE_TEST_DATABASE_URL=x", ""},
		{"TASKTABLE_SERVICE_HOST=10.0.0.1", ""}, // Kubernetes sets these
		{"TASKTABLE_SERVICE_PORT_HTTP=80", ""},
		{"TASKTABLE_PORT_80_TCP_ADDR=10.0.0.1", ""},
	} {
		t.Run(test.entry, func(t *testing.T) {
			var log bytes.Buffer
			p := newProgram([]string{test.entry}, io.Discard, io.Discard)
			p.rootCommand()
			p.WarnUnknown(slog.New(slog.NewTextHandler(&log, nil)))
			switch {
			case test.want == "" && log.Len() > 0:
				t.Errorf("warned: %s", log.String())
			case !strings.Contains(log.String(), test.want):
				t.Errorf("got %q, want %q in it", log.String(), test.want)
			case strings.Contains(log.String(), "secret"):
				t.Errorf("shows the value: %s", log.String())
			}
		})
	}
}
