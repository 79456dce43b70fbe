package cmd

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term/termtest"
)

// answered runs a command on a terminal on which somebody has typed an answer already.
func answered(t *testing.T, variables []string, answer string, args ...string) result {
	t.Helper()
	hand, screen := termtest.OpenPTY(t)
	if _, err := hand.WriteString(answer); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := newProgram(variables, &stdout, &stderr)
	p.stdin, p.now = screen, fixedNow
	code := p.run(t.Context(), args)
	return result{code, stdout.String(), stderr.String()}
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	const question = "This cancels 2 tasks (1 PAUSED of LOG; 1 QUEUED of MAIL). Go on? [y/N] "
	for answer, want := range map[string]result{
		"y\n":     {exitOK, "ID           OUTCOME\ntask-LOG-2   cancelled\ntask-MAIL-1  cancelled\n", question},
		"Yes\n":   {exitOK, "ID           OUTCOME\ntask-LOG-2   cancelled\ntask-MAIL-1  cancelled\n", question},
		"\n":      {exitFailed, "", question + "tasktable: not confirmed: nothing was changed\n"},
		"no\n":    {exitFailed, "", question + "tasktable: not confirmed: nothing was changed\n"},
		"yeast\n": {exitFailed, "", question + "tasktable: not confirmed: nothing was changed\n"},
	} {
		variables := withTasks(t)
		got := answered(t, variables, answer, "tasks", "cancel", "--entity=event:42")
		if got != want {
			t.Errorf("%q: got\n%+v\nwant\n%+v", answer, got, want)
		}
		if want.code != exitOK {
			execute(t, urlOf(variables),
				`SELECT 1 / (count(*) - 1) FROM tasktable.scheduled_tasks WHERE entity = 'event:42'
					AND status IN ('QUEUED', 'PAUSED')`)
		}
	}
}

func TestConfirmationIsInterrupted(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	ctx, cancel := context.WithCancel(t.Context())
	hand, screen := termtest.OpenPTY(t)
	_ = hand
	stderr := &telling{text: "Go on?", told: cancel}
	p := newProgram(variables, &bytes.Buffer{}, stderr)
	p.stdin = screen
	ended := make(chan int, 1)
	go func() { ended <- p.run(ctx, []string{"tasks", "cancel", "--entity=event:42"}) }()
	select {
	case code := <-ended:
		if code != exitInterrupted {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(waitLimit):
		t.Fatal("it still waits for an answer")
	}
}

// telling calls told once a text was written.
type telling struct {
	text string
	told func()
}

func (w *telling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.told()
	}
	return len(p), nil
}

func TestColorsAreForTerminals(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	const red = "\x1b[31mFAILED\x1b[0m"
	for name, c := range map[string]struct {
		variables []string
		args      []string
		want      bool
	}{
		"terminal":     {nil, nil, true},
		"NO_COLOR":     {[]string{"NO_COLOR=1"}, nil, false},
		"--no-color":   {nil, []string{"--no-color"}, false},
		"the variable": {[]string{"TASKTABLE_NO_COLOR=true"}, nil, false},
		"dumb":         {[]string{"TERM=dumb"}, nil, false},
		"json":         {nil, []string{"--output=json"}, false},
	} {
		hand, screen := termtest.OpenPTY(t)
		p := newProgram(append(c.variables, variables...), screen, &bytes.Buffer{})
		p.now = fixedNow
		shown := make(chan string, 1)
		go func() { shown <- readAll(hand) }()
		if code := p.run(t.Context(), append([]string{"tasks", "list", "--status=FAILED"}, c.args...)); code != exitOK {
			t.Errorf("%s: exit code %d", name, code)
		}
		if err := screen.Close(); err != nil { // what was written is read, and then nothing more
			t.Fatal(err)
		}
		got := <-shown
		if strings.Contains(got, red) != c.want || !strings.Contains(got, "FAILED") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// readAll reads to the error that the other end is closed.
func readAll(hand *os.File) string {
	var all bytes.Buffer
	_, _ = all.ReadFrom(hand)
	return all.String()
}
