package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store/when"
)

// recipientFormView is the form of a recipient.
type recipientFormView struct {
	Seen       string // the recipient as it is drawn; "" for a new one
	Recipient  rules.Recipient
	MutedUntil string
	Quiet      rules.Quiet
	Events     []choice
	Errors     formErrors
}

func recipientPage(ctx context.Context, v *visit) (any, error) {
	recipient, known, err := recipientSetting.page(ctx, v)
	if err != nil {
		return nil, err
	}
	form := recipientFormOf(recipient)
	form.MutedUntil = frame{visit: v}.Input(recipient.MutedUntil)
	if known {
		form.Seen = asJSON(recipient)
	}
	return form, nil
}

func recipientFormOf(recipient rules.Recipient) recipientFormView {
	form := recipientFormView{Recipient: recipient, Events: eventChoices(recipient.Events), Errors: formErrors{}}
	if recipient.Quiet != nil {
		form.Quiet = *recipient.Quiet
	}
	return form
}

// setRecipient creates a recipient, or replaces the one that the person saw.
func setRecipient(ctx context.Context, v *visit) (done, error) {
	recipient := rules.Recipient{
		Name: v.form("name"), Email: strings.TrimSpace(v.form("email")), Target: strings.TrimSpace(v.form("target")),
		Events: eventsOf(v), Quiet: quietOf(v),
	}
	form := recipientFormOf(recipient)
	form.Seen, form.MutedUntil = v.form("seen"), v.form("muted_until")
	var former rules.Recipient
	var err error
	if form.Seen != "" {
		if former, err = recipientSetting.locked(ctx, v, recipient.Name); err != nil {
			return done{}, err
		}
	}
	until, wrong := v.mutedUntil(former.MutedUntil)
	if wrong != nil {
		form.Errors["muted_until"] = "muted until " + wrong.Error()
	}
	recipient.MutedUntil = until
	if err := recipient.Check(); err != nil {
		form.Errors.add(err, renamedFields)
	}
	var outcome string
	if len(form.Errors) == 0 {
		if outcome, err = v.rules().SetRecipient(ctx, v.db, recipient); err == nil {
			err = recipientSetting.written(v, outcome, recipient.Name)
		}
		if err != nil {
			err = formError(form.Errors, err)
		}
	}
	switch {
	case err != nil:
		return done{}, err
	case len(form.Errors) > 0:
		const wrong = http.StatusUnprocessableEntity
		return done{show: "notices-recipient", status: wrong, title: "Recipient", view: form}, nil
	}
	text := "The recipient " + recipient.Name + " is " + outcome + "."
	if v.lacksTarget(recipient) {
		text += " But this program has no target " + recipient.Target + ", so notices to it fail until all nodes " +
			"that send notices have one, by --notice-target."
	}
	return done{text: text, to: "/notices"}, nil
}

// mutedUntil reads the time of the form, in the zone in which the page was drawn. The form has it to the second, so a
// time that nobody has changed remains as it was.
func (v *visit) mutedUntil(former *time.Time) (*time.Time, error) {
	zone, err := zoneOf(v.form("zone"))
	if err != nil {
		zone = v.look.zone
	}
	at, err := when.Time(v.form("muted_until"), v.now, zone)
	switch {
	case err != nil || at.IsZero():
		return nil, err
	case former != nil && former.Truncate(time.Second).Equal(at):
		return former, nil
	}
	return &at, nil
}
