package dashboard

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
)

// frame is the value that a template works with. Its View is the value of the page's view. Within a range a template
// reaches the frame by $.
type frame struct {
	visit *visit

	Title string
	View  any
	Main  template.HTML // the page's own part; only the layout has it
	Said  said          // what the last act has done; only the layout has it
}

// Link returns the address of a page. It takes a path of the dashboard, and then names and values of parameters by
// turns. Empty values are left out.
func (f frame) Link(path string, parameters ...any) string {
	texts := make([]string, len(parameters))
	for i, parameter := range parameters {
		if text, is := parameter.(*string); is { // a field that not every task has
			parameter = textOf(text)
		}
		texts[i] = fmt.Sprint(parameter)
	}
	return f.visit.board.link(path, texts...)
}

// Local returns the address of a path of the dashboard that a form has named, such as its field back.
func (f frame) Local(path string) string { return f.visit.board.link(f.visit.board.localPath(path)) }

// Task returns the address of a task's page.
func (f frame) Task(id string) string { return f.visit.board.link(taskPath(id)) }

// With returns the address of this page with a parameter changed, as links that sort or filter need it. "" removes it.
func (f frame) With(name string, value any) string {
	values := f.visit.values()
	values.Del("after")
	values.Del(name)
	if text := fmt.Sprint(value); text != "" {
		values.Set(name, text)
	}
	return f.visit.board.config.Prefix + f.visit.request.URL.EscapedPath() + question(values)
}

func (f frame) Query(name string) string { return f.visit.query(name) }

// Here returns the path and the parameters of this page, for the field back of forms. The answer of an act has the
// address of a form, which is no page. So Here is then the page to which the act would have led back.
func (f frame) Here() string {
	if f.isAct() {
		return f.visit.board.localPath(f.visit.form("back"))
	}
	return f.visit.request.URL.RequestURI()
}

// isAct reports whether this is the answer of an act, and not a page that can be read again.
func (f frame) isAct() bool { return f.visit.request.Method == http.MethodPost }

// At reports whether this page is in a part of the dashboard, such as /tasks.
func (f frame) At(path string) bool {
	here := f.visit.request.URL.Path
	return here == path || path != "/" && strings.HasPrefix(here, path+"/")
}

// May reports whether the person has all of some scopes. It fails for a scope that there is not.
func (f frame) May(scopes ...keys.Scope) (bool, error) {
	needed, known := ScopesOf(scopes...)
	if !known {
		return false, fmt.Errorf("no scopes %q", scopes)
	}
	return f.visit.may(needed), nil
}

// Person returns who looks at the page. It is for the layout alone, because people of the same scopes share their
// pages.
func (f frame) Person() Person { return f.visit.person }

// AllTenants reports whether the person sees the tasks of all tenants.
func (f frame) AllTenants() bool { return f.visit.person.Tenant == "" }

// SignsIn reports whether people sign in with a key here.
func (f frame) SignsIn() bool { return f.visit.board.config.Authenticate == nil }

func (f frame) Environment() string      { return f.visit.board.config.Environment }
func (f frame) EnvironmentColor() string { return f.visit.board.config.EnvironmentColor }
func (f frame) Zone() string             { return f.visit.look.zone.String() }

// Theme returns light, dark or "".
func (f frame) Theme() string { return f.visit.look.theme }

// AsOf returns the database's time at which the page was read.
func (f frame) AsOf() time.Time { return f.visit.now }

// File returns the address of a file in static.
func (f frame) File(name string) string {
	return f.visit.board.link("/static/"+name, "v", f.visit.board.files[name].version)
}

// Live returns the address of the stream that tells when this page's main part changes. It is "" for the answer to a
// form, because a stream would read the form's address as a page, and show that instead. A stranger has none, either.
func (f frame) Live() string {
	if f.visit.request.Method != http.MethodGet || f.visit.person.Name == "" {
		return ""
	}
	return f.visit.board.link("/live", "page", f.Here())
}

// Time shows a time relative to now, with the exact one at hand. It takes a time.Time or a *time.Time.
func (f frame) Time(given any) template.HTML {
	at, known := timeOf(given)
	if !known {
		return `<span class="faint">–</span>`
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec // no text of others
		at.UTC().Format(time.RFC3339Nano), f.visit.exact(at), words.Relative(at.Sub(f.visit.now))))
}

// Exact shows a time in the person's zone, to the second.
func (f frame) Exact(given any) template.HTML {
	at, known := timeOf(given)
	if !known {
		return `<span class="faint">–</span>`
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, //nolint:gosec // no text of others
		at.UTC().Format(time.RFC3339Nano), f.visit.exact(at)))
}

// Input shows a time as an input of type datetime-local takes it, in the person's zone.
func (f frame) Input(given any) string {
	at, known := timeOf(given)
	if !known {
		return ""
	}
	return at.In(f.visit.look.zone).Format("2006-01-02T15:04:05")
}

// Status shows a status or an outcome as a badge.
func (f frame) Status(status any) template.HTML {
	text := template.HTMLEscapeString(fmt.Sprint(status))
	return template.HTML(`<span class="badge" data-status="` + text + `">` + text + `</span>`) //nolint:gosec // escaped
}

func timeOf(given any) (at time.Time, known bool) {
	switch given := given.(type) {
	case time.Time:
		return given, !given.IsZero()
	case *time.Time:
		if given != nil {
			return *given, true
		}
	}
	return time.Time{}, false
}

// link is Link without a frame.
func (d *Dashboard) link(path string, parameters ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			values.Set(parameters[i], parameters[i+1])
		}
	}
	return d.config.Prefix + path + question(values)
}

func question(values url.Values) string {
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// taskPath is the path of a task's page, for done.to.
func taskPath(id string) string { return "/tasks/" + pathPart(id) }

// pathPart writes an id as a part of a path. Browsers take the parts . and .. out of a path, also if they are escaped,
// and net/http does so with a part that is a slash. So such an id has idMark before it, which no id has, because it is
// a control character.
func pathPart(id string) string {
	if id == "." || id == ".." || id == "/" {
		id = idMark + id
	}
	return url.PathEscape(id)
}

const idMark = "\x7f"
