package handlers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	errMail := errors.New("mail server away")
	if err := handlers.Permanent(nil); err != nil {
		t.Errorf("Permanent of nil is %v", err)
	}
	for _, test := range []struct {
		err  error
		text string
		is   error
	}{
		{handlers.Permanent(errMail), "mail server away", errMail},
		{handlers.RetryAfter(time.Minute, errMail), "mail server away", errMail},
		{handlers.RetryAfter(-time.Minute, errMail), "mail server away", errMail},
		{handlers.RetryAfter(time.Minute, nil), "retry asked for", nil},
		{handlers.Snooze(time.Hour), "snoozed for 1h0m0s", nil},
		{handlers.Snooze(-time.Hour), "snoozed for 0s", nil},
		{handlers.Permanent(handlers.RetryAfter(time.Minute, errMail)), "mail server away", errMail},
	} {
		if test.err.Error() != test.text || test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%q, want %q", test.err, test.text)
		}
	}
	var (
		permanent *handlers.PermanentError
		after     *handlers.RetryAfterError
		snooze    *handlers.SnoozeError
	)
	if !errors.As(fmt.Errorf("a: %w", handlers.Permanent(errMail)), &permanent) ||
		permanent.Err != errMail { //nolint:errorlint // the very one
		t.Errorf("permanent %v", permanent)
	}
	if !errors.As(errors.Join(errMail, handlers.RetryAfter(time.Minute, errMail)), &after) ||
		after.Delay != time.Minute {
		t.Errorf("retry after %v", after)
	}
	if !errors.As(fmt.Errorf("a: %w", handlers.Snooze(-1)), &snooze) || snooze.Delay != 0 {
		t.Errorf("snooze %v", snooze)
	}
}

func TestPanicError(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"handler panicked: boom\nstack":                        &handlers.PanicError{Value: "boom", Stack: "stack"},
		"handler ended its goroutine by runtime.Goexit\nstack": &handlers.PanicError{Stack: "stack"},
		"handler panicked: mail server away\nstack": &handlers.PanicError{
			Value: errors.New("mail server away"), Stack: "stack",
		},
		"handler panicked: %!v(PANIC=String method: text)\nstack": &handlers.PanicError{
			Value: panicking{}, Stack: "stack",
		},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

type panicking struct{}

func (panicking) String() string { panic("text") }
