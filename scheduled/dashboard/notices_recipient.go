package dashboard

import (
	"context"
	"strings"

	"github.com/tasktable/tasktable/handlers/notice/rules"
)

// recipientFormView is the form of a recipient.
type recipientFormView struct {
	Seen      string // the recipient as it is drawn; "" for a new one
	Recipient rules.Recipient
	Events    []choice
	Errors    formErrors
}

func recipientPage(ctx context.Context, v *visit) (any, error) {
	recipient, known, err := recipientSetting.page(ctx, v)
	if err != nil {
		return nil, err
	}
	form := recipientFormOf(recipient)
	if known {
		form.Seen = asJSON(recipient)
	}
	return form, nil
}

func recipientFormOf(recipient rules.Recipient) recipientFormView {
	events := choicesOf(rules.Events(), eventLabels, recipient.Events)
	return recipientFormView{Recipient: recipient, Events: events, Errors: formErrors{}}
}

// setRecipient creates a recipient, or replaces the one that the person saw.
func setRecipient(ctx context.Context, v *visit) (done, error) {
	recipient := rules.Recipient{
		Name: v.form("name"), Email: strings.TrimSpace(v.form("email")), Target: strings.TrimSpace(v.form("target")),
		Events: takenOf[rules.Event](v, "event"),
	}
	form := recipientFormOf(recipient)
	form.Seen = v.form("seen")
	outcome, err := recipientSetting.save(ctx, v, recipient, form.Errors)
	switch {
	case err != nil:
		return done{}, err
	case len(form.Errors) > 0:
		return refused("notices-recipient", "Recipient", form), nil
	}
	text := "The recipient " + recipient.Name + " is " + outcome + "."
	if v.lacksTarget(recipient) {
		text += " But this program has no target " + recipient.Target + ", so notices to it fail until all nodes " +
			"that send notices have one, by --notice-target."
	}
	return done{text: text, to: "/notices"}, nil
}
