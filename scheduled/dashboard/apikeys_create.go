package dashboard

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// keyFormView is the form of a new key, as somebody has filled it in.
type keyFormView struct {
	Name, Service, Tenant, Rate, ExpiresIn string
	Scopes                                 []choiceView
	Errors                                 formErrors
}

// choiceView is a box that somebody can check.
type choiceView struct {
	Name    string
	Text    string
	Checked bool
}

// formErrors are the errors of a form by its fields. "" has those about no field.
type formErrors map[string]string

func newKeyForm() keyFormView { return keyFormView{Scopes: scopeChoices(nil)} }

func scopeChoices(chosen []string) (choices []choiceView) {
	texts := map[keys.Scope]string{
		keys.Read:     "read: look at tasks, in the API and here",
		keys.Schedule: "schedule: schedule, edit and cancel tasks in the API",
		keys.Operate:  "operate: pause, retry, run now and delete, in the API and here",
		keys.Admin:    "admin: manage keys and notices here",
	}
	for _, scope := range keys.Scopes() {
		choices = append(choices, choiceView{string(scope), texts[scope], slices.Contains(chosen, string(scope))})
	}
	return choices
}

// keyCreatedView has the only copy of a secret. It must get into no log, cookie or address.
type keyCreatedView struct {
	Secret string
	Key    keyView
}

func createKey(ctx context.Context, v *visit) (done, error) {
	form := keyFormView{
		Name: v.form("name"), Service: v.form("service"), Tenant: v.form("tenant"), Rate: v.form("rate"),
		ExpiresIn: v.form("expires_in"), Scopes: scopeChoices(v.request.PostForm["scope"]), Errors: formErrors{},
	}
	wanted := keys.NewKey{
		Name: form.Name, Service: form.Service, TenantID: form.Tenant, By: v.person.Name,
		Rate: form.rate(), ExpiresIn: form.expiresIn(),
	}
	for _, scope := range v.request.PostForm["scope"] {
		wanted.Scopes = append(wanted.Scopes, keys.Scope(scope))
	}
	if err := wanted.Check(); err != nil {
		form.Errors.add(err, map[string]string{"tenant_id": "tenant"})
	}
	if len(form.Errors) == 0 {
		secret, key, err := v.board.config.Keys.Create(ctx, v.db, wanted)
		switch {
		case err == nil:
			return done{
				text: "created", show: "keys-created", title: "Key " + key.Name,
				view: keyCreatedView{secret, keyViewOf(key, v.now)},
			}, nil
		case errors.Is(err, keys.ErrNoTenantRole):
			form.Errors["tenant"] = sentence(err)
		case errors.Is(err, store.ErrInvalid):
			form.Errors.add(err, nil)
		default:
			return done{}, err
		}
	}
	return done{}, refused{answer{http.StatusUnprocessableEntity, "keys-new", "New key", form}}
}

func (f keyFormView) rate() int {
	rate, err := strconv.Atoi(f.Rate)
	if f.Rate != "" && (err != nil || rate < 1) {
		f.Errors["rate"] = "rate must be a number of calls a second from 1 to " + strconv.Itoa(keys.MaxRate)
		return 0
	}
	return rate
}

var lifetimeParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,10})s)?$`)

// expiresIn reads a duration in weeks, days, hours, minutes and seconds, such as 90d or 1d12h.
func (f keyFormView) expiresIn() (lifetime time.Duration) {
	if f.ExpiresIn == "" {
		return 0
	}
	parts := lifetimeParts.FindStringSubmatch(f.ExpiresIn)
	if parts != nil {
		for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
			number, _ := strconv.Atoi(parts[i+1]) // "" is 0
			lifetime += time.Duration(number) * unit
		}
	}
	if lifetime < time.Second || lifetime > keys.MaxExpiresIn {
		f.Errors["expires_in"] = "expires in must be a duration from 1s to 100 years, such as 12h, 90d or 52w"
		return 0
	}
	return lifetime
}

// add puts an error that wraps store.ErrInvalid beside the field that its text names first. renamed has the names of
// fields that have another name in the form.
func (e formErrors) add(err error, renamed map[string]string) {
	_, text, found := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
	if !found {
		text = err.Error()
	}
	field, _, _ := strings.Cut(text, " ")
	if name, ok := renamed[field]; ok {
		field = name
	}
	if e[field] == "" {
		e[field] = text
	}
}

// Others are the errors about no field of the form, of which known are the names.
func (e formErrors) Others(known ...string) (texts []string) {
	for field, text := range e {
		if !slices.Contains(known, field) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}
