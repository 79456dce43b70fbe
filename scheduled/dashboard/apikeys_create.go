package dashboard

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// keyFormView is the form of a new key, as somebody has filled it in.
type keyFormView struct {
	Name, Service, Tenant, Types, Queues, Rate, ExpiresIn string
	Scopes                                                []choice
	Errors                                                formErrors
}

func newKeyPage(context.Context, *visit) (any, error) {
	return keyFormView{Scopes: scopeChoices(nil)}, nil
}

func scopeChoices(taken []keys.Scope) []choice {
	return choicesOf(keys.Scopes(), map[keys.Scope]string{
		keys.Read:     "read: look at tasks, in the API and here",
		keys.Schedule: "schedule: schedule, edit, delete, and all verbs on tasks, in the API and here",
		keys.Operate:  "operate: retry and archive dead letters and pause queues, in the API and here",
		keys.Admin:    "admin: manage keys and notices here",
	}, taken)
}

// keyCreatedView has the only copy of a secret. It must get into no log, cookie or address.
type keyCreatedView struct {
	Secret string
	Key    keyView
}

func createKey(ctx context.Context, v *visit) (done, error) {
	scopes := takenOf[keys.Scope](v, "scope")
	form := keyFormView{
		Name: v.form("name"), Service: v.form("service"), Tenant: v.form("tenant"), Rate: v.form("rate"),
		Types: v.form("types"), Queues: v.form("queues"), ExpiresIn: v.form("expires_in"),
		Scopes: scopeChoices(scopes), Errors: formErrors{},
	}
	wanted := keys.NewKey{
		Name: form.Name, Service: form.Service, TenantID: form.Tenant, By: v.person.Name, Scopes: scopes,
		Types: listed(form.Types), Queues: listed(form.Queues), Rate: form.rate(), ExpiresIn: form.expiresIn(),
	}
	if err := wanted.Check(); err != nil {
		form.Errors.add(err, map[string]string{"tenant_id": "tenant", "type": "types", "queue": "queues"})
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
	return refused("keys-new", "New key", form), nil
}

// listed returns the names of a text that separates them by commas or spaces.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

func (f keyFormView) rate() int {
	rate, err := strconv.Atoi(f.Rate)
	if f.Rate != "" && (err != nil || rate < 1) {
		f.Errors["rate"] = "rate must be a number of calls a second from 1 to " + strconv.Itoa(keys.MaxRate)
		return 0
	}
	return rate
}

func (f keyFormView) expiresIn() time.Duration {
	if f.ExpiresIn == "" {
		return 0
	}
	lifetime, err := when.LengthBetween(f.ExpiresIn, time.Second, keys.MaxExpiresIn)
	if err != nil {
		f.Errors["expires_in"] = "expires in " + err.Error()
	}
	return lifetime
}
