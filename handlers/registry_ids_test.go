package handlers_test

import (
	"errors"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

type sendEmail struct{ ID string }

func (sendEmail) TaskType() string  { return "send-email" }
func (e sendEmail) TaskKey() string { return e.ID }

type sendEmailWelcome struct{ ID string }

func (sendEmailWelcome) TaskType() string  { return "send-email-welcome" }
func (e sendEmailWelcome) TaskKey() string { return e.ID }

type sendEmailOnce struct{} // without a key

func (sendEmailOnce) TaskType() string { return "send-email-once" }

type sendEmails struct{ ID string }

func (sendEmails) TaskType() string  { return "send-emails" }
func (e sendEmails) TaskKey() string { return e.ID }

func TestTypesWhoseIDsCouldBeTheSame(t *testing.T) {
	t.Parallel()
	if _, err := handlers.NewRegistry(part[sendEmail](), part[sendEmailWelcome]()); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for name, parts := range map[string][]handlers.Part{
		"without a key": {part[sendEmail](), part[sendEmailOnce]()},
		"no hyphen":     {part[sendEmail](), part[sendEmails]()},
		"alias":         {part[sendEmailWelcome](handlers.Alias("send-email"))},
	} {
		if _, err := handlers.NewRegistry(parts...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
