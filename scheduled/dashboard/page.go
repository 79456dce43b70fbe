package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// page is a kind of page.
type page struct {
	path     string // a pattern of net/http, such as /tasks/{id}
	template string // the name of its file in templates, without .html
	title    string // a view can answer with another one
	needs    Scopes // 0 means Read
	global   bool   // it is about the whole service, so a person with a tenant may not see it
	read     view
}

// view reads the content of a page. Its value is the template's .View.
type view func(context.Context, *visit) (any, error)

// answer is the content of a page that was read.
type answer struct {
	status   int
	template string
	title    string
	view     any
}

// titled is a view's value that has its own title.
type titled interface{ Title() string }

type visitKey struct{}

// page adds a page. The handler that it adds to views does not write. It reads the content into the visit of the
// request's context, so that servePage and a feed can both use it.
func (d *Dashboard) page(p page) {
	d.views.HandleFunc("GET "+p.path, func(_ http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		v.request = r // it has the parts of the path
		v.answer = answer{http.StatusOK, p.template, p.title, nil}
		err := allow(v.person, cmp.Or(p.needs, Read), p.global)
		if err == nil {
			err = d.begin(v, false, func(ctx context.Context) (err error) {
				v.answer.view, err = p.read(ctx, v)
				return err
			})
		}
		if own, ok := v.answer.view.(titled); ok && err == nil {
			v.answer.title = own.Title()
		}
		if err != nil {
			v.answer = d.errorAnswer(r, err)
		}
	})
}

func allow(person Person, needed Scopes, global bool) error {
	switch {
	case !person.Scopes.may(needed):
		return scopeError{needed &^ person.Scopes}
	case global && person.Tenant != "":
		return errAllTenants
	}
	return nil
}

// read reads the page of a request for a person. v.answer has it.
func (d *Dashboard) read(r *http.Request, person Person, look look) *visit {
	v := &visit{board: d, request: r, person: person, look: look}
	v.answer = answer{http.StatusNotFound, "error", "Not found", errorView{Text: "There is no such page."}}
	d.views.ServeHTTP(nothing{}, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	return v
}

// servePage answers all GET requests but those of live streams and of files.
func (d *Dashboard) servePage(w http.ResponseWriter, r *http.Request) {
	person, known := d.admit(w, r)
	if !known {
		return
	}
	if person.Tenant != "" && r.URL.Path == "/" { // the overview is about all tenants
		http.Redirect(w, r, d.link("/tasks"), http.StatusSeeOther)
		return
	}
	v := d.read(r, person, lookOf(r))
	d.write(w, v, v.answer)
}

// admit tells who sends a request. It answers the request itself, and reports false, if nobody knows that.
func (d *Dashboard) admit(w http.ResponseWriter, r *http.Request) (person Person, known bool) {
	person, err := d.whoIs(r)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		d.refuseStranger(w, r)
	case err != nil:
		d.fail(w, r, fmt.Errorf("authenticate: %w", err))
	}
	return person, err == nil
}

// whoIs authenticates. A person without a name, or without the scope read, is nobody.
func (d *Dashboard) whoIs(r *http.Request) (Person, error) {
	authenticate := d.config.Authenticate
	if authenticate == nil {
		authenticate = d.bySession
	}
	person, err := authenticate(r)
	if err != nil {
		return Person{}, err // no page may show a person of whom nobody is sure
	}
	if !validName(person.Name) || !person.Scopes.may(Read) || person.Scopes&^All != 0 {
		return Person{}, fmt.Errorf("%w: a person needs a name and the scope read", ErrUnauthenticated)
	}
	return person, nil
}

// errorView is the content of a page that could not be read, or of an act that was refused.
type errorView struct {
	Text    string
	Changes []changeView // that somebody else has made to a task meanwhile
	Fields  []fieldView  // that somebody else has changed in anything else
}

// problem is an error whose text is for the person.
type problem struct {
	status int
	title  string
	view   errorView
}

func (p problem) Error() string { return p.view.Text }

func tell(status int, title, text string) problem {
	return problem{status, title, errorView{Text: text}}
}

// notValid is the problem of a form, or of an address, that breaks a rule. The text names the field and the rule.
func notValid(text string) problem {
	return tell(http.StatusUnprocessableEntity, "Not valid", upper(strings.TrimSuffix(text, "."))+".")
}

// conflict is the problem of an act on something that somebody else has changed.
func conflict(text string) problem { return tell(http.StatusConflict, "Changed meanwhile", text) }

func notFound(text string) problem { return tell(http.StatusNotFound, "Not found", text) }

// errorAnswer is the page that tells a person about an error.
func (d *Dashboard) errorAnswer(r *http.Request, err error) answer {
	told := d.problemOf(r, err)
	return answer{told.status, "error", told.title, told.view}
}

// problemOf tells a person about an error. What the person cannot help goes to the log alone.
func (d *Dashboard) problemOf(r *http.Request, err error) problem {
	var own problem
	var scope scopeError
	_, unbound := keys.Unbound(err)
	switch {
	case errors.As(err, &own):
		return own
	case unbound != "":
		return tell(http.StatusForbidden, "Not allowed", upper(unbound)+".")
	case errors.As(err, &scope):
		return tell(http.StatusForbidden, "Not allowed", upper(scope.Error())+".")
	case errors.Is(err, errAllTenants):
		return tell(http.StatusForbidden, "Not allowed", "This page is about all tenants. You see those of one.")
	case errors.Is(err, store.ErrNotFound):
		return notFound(sentence(err))
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrNotRecurring):
		return tell(http.StatusUnprocessableEntity, "Not valid", sentence(err))
	case errors.Is(err, context.Canceled):
		return tell(http.StatusServiceUnavailable, "Cancelled", "The request was cancelled.")
	case errors.Is(err, context.DeadlineExceeded):
		d.config.Logger.Warn("a page took too long", "path", r.URL.Path, "error", err)
		return tell(http.StatusServiceUnavailable, "Not now", "The database took too long. Try again.")
	}
	d.config.Logger.Error("a page failed", "path", r.URL.Path, "error", err)
	return tell(http.StatusServiceUnavailable, "Not now",
		"The database gave no answer. The log has the reason. Try again.")
}

// fail writes the page of an error.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	d.write(w, &visit{board: d, request: r, look: lookOf(r)}, d.errorAnswer(r, err))
}
