package dashboard_test

import (
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

var (
	okName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	// addresses are the attributes with the address of a file, a page or an act.
	addresses = []string{"href", "src", "action", "formaction", "data-live", "xlink:href", "poster", "data"}
	forbidden = []string{"style", "iframe", "frame", "object", "embed", "base", "applet", "template", "noscript", "poison"}
)

// checkMarkup fails the test if a text of others has become an element, an attribute, an address or a comment. It returns
// the number of times that poison is in the page's text.
func checkMarkup(t *testing.T, where, prefix, text string) (shown int) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "ZgotmplZ") {
		t.Errorf("%s: html/template has refused a value, so the page shows ZgotmplZ", where)
	}
	for node := range document.Descendants() {
		switch node.Type {
		case html.TextNode:
			shown += strings.Count(node.Data, "poison")
			if node.Parent != nil && node.Parent.Data == "script" {
				t.Errorf("%s: an inline script %.100q", where, node.Data)
			}
		case html.CommentNode:
			t.Errorf("%s: a comment %.100q", where, node.Data)
		case html.ElementNode:
			if slices.Contains(forbidden, node.Data) || !okName.MatchString(strings.ToLower(node.Data)) {
				t.Errorf("%s: an element %.100q", where, node.Data)
			}
			shown += checkAttributes(t, where, prefix, node)
		}
	}
	return shown
}

func checkAttributes(t *testing.T, where, prefix string, node *html.Node) (shown int) {
	t.Helper()
	for _, attribute := range node.Attr {
		name := attribute.Key
		shown += strings.Count(attribute.Val, "poison")
		switch {
		case strings.HasPrefix(name, "on"), name == "style", name == "srcdoc", strings.Contains(name, "poison"),
			name == "http-equiv", name == "target", !okName.MatchString(strings.ToLower(name)):
			t.Errorf("%s: <%s> has the attribute %s=%.100q", where, node.Data, name, attribute.Val)
		case !slices.Contains(addresses, name):
		case strings.HasPrefix(attribute.Val, "#"), strings.HasPrefix(attribute.Val, "?"):
		case !strings.HasPrefix(attribute.Val, prefix+"/"), strings.HasPrefix(attribute.Val, "//"),
			strings.ContainsAny(attribute.Val, "\\\t\r\n"):
			t.Errorf("%s: <%s> has the address %s=%.100q", where, node.Data, name, attribute.Val)
		}
	}
	if node.Data == "script" && !slices.ContainsFunc(node.Attr, func(a html.Attribute) bool {
		return a.Key == "src" && strings.HasPrefix(a.Val, prefix+"/static/")
	}) {
		t.Errorf("%s: a script without a file of static", where)
	}
	return shown
}

// walker visits pages, and all that they lead to.
type walker struct {
	*board

	prefix string
	routes *http.ServeMux // of all pages and acts
	all    []dashboard.Route
	seen   map[string]bool
	first  map[string]bool // those with which the walk begins
	todo   []string
	fields map[string][]string // the names of the fields of a form, by its method and address
	forms  map[string]string   // the first such address of each method and pattern, because one of many is enough
	shown  map[string]int      // how often poison is in the text of the pages of a pattern
}

func newWalker(b *board, prefix string, all []dashboard.Route) *walker {
	w := &walker{board: b, prefix: prefix, routes: http.NewServeMux(), all: all, seen: map[string]bool{},
		fields: map[string][]string{}, forms: map[string]string{}, shown: map[string]int{}}
	for _, route := range all {
		w.routes.Handle(route.Method+" "+route.Path, http.NotFoundHandler())
	}
	for _, raw := range rawHandlers {
		if raw != "GET /" {
			w.routes.Handle(raw, http.NotFoundHandler())
		}
	}
	return w
}

// pattern returns the pattern of a path, or "".
func (w *walker) pattern(method, path string) string {
	request, err := http.NewRequestWithContext(w.Context(), method, path, nil)
	if err != nil {
		return ""
	}
	_, pattern := w.routes.Handler(request)
	return pattern
}

var linked = regexp.MustCompile(`<(a|form|button)[^>]* (?:href|action|formaction)="([^"#?]+)`)

// leadsTo returns the pages and acts to which the links, forms and buttons of a page lead.
func (w *walker) leadsTo(text string) (routes []dashboard.Route) {
	for _, found := range linked.FindAllStringSubmatch(text, -1) {
		method := http.MethodGet
		if found[1] == "button" || strings.Contains(found[0], `method="post"`) {
			method = http.MethodPost
		}
		pattern := w.pattern(method, html.UnescapeString(found[2]))
		for _, route := range w.all {
			if route.Method+" "+route.Path == pattern {
				routes = append(routes, route)
			}
		}
	}
	return routes
}

func (w *walker) add(path string) {
	if !w.seen[path] {
		w.seen[path] = true
		w.todo = append(w.todo, path)
	}
}

// maxOfPattern bounds the pages of one pattern that a walk visits because others lead to them.
const maxOfPattern = 15

// walk visits pages until it knows no more. Each must be there, whatever is in its address.
func (w *walker) walk() {
	w.Helper()
	visited := map[string]int{}
	for len(w.todo) > 0 {
		path := w.todo[0]
		w.todo = w.todo[1:]
		pattern := w.pattern(http.MethodGet, path)
		if pattern == "" {
			w.Errorf("a page leads to %.200s, which is no page", path)
			continue
		}
		if visited[pattern]++; visited[pattern] > maxOfPattern && !w.first[path] {
			continue
		}
		got := w.get(path)
		if got.status != http.StatusOK {
			w.Errorf("GET %.200s: answer %d: %.300s", path, got.status, got.words())
		}
		w.shown[pattern] += checkMarkup(w.T, "GET "+path, w.prefix, got.text)
		w.follow(got.text)
	}
}

// follow adds the links of a page, and learns its forms.
func (w *walker) follow(text string) {
	w.Helper()
	document, err := html.Parse(strings.NewReader(text))
	if err != nil {
		w.Fatal(err)
	}
	for node := range document.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		attributes := map[string]string{}
		for _, attribute := range node.Attr {
			attributes[attribute.Key] = attribute.Val
		}
		switch node.Data {
		case "a":
			if path, ok := strings.CutPrefix(attributes["href"], w.prefix+"/"); ok {
				address, _, _ := strings.Cut("/"+path, "#")
				w.add(address)
			}
		case "form":
			w.learn(node, attributes)
		}
	}
}

func (w *walker) learn(form *html.Node, attributes map[string]string) {
	w.Helper()
	action, ok := strings.CutPrefix(attributes["action"], w.prefix)
	if !ok || attributes["method"] == "dialog" {
		return
	}
	path, _, _ := strings.Cut(action, "?")
	method := strings.ToUpper(attributes["method"])
	if method == "" {
		method = http.MethodGet
	}
	if w.pattern(method, path) == "" {
		w.Errorf("a form is sent by %s to %.200s, which is nothing", method, path)
	}
	key := method + " " + path
	pattern := method + " " + w.pattern(method, path)
	if first, known := w.forms[pattern]; known {
		key = first
	}
	w.forms[pattern] = key
	for node := range form.Descendants() {
		for _, attribute := range node.Attr {
			named := node.Data == "input" || node.Data == "select" || node.Data == "textarea" || node.Data == "button"
			if named && attribute.Key == "name" && !slices.Contains(w.fields[key], attribute.Val) {
				w.fields[key] = append(w.fields[key], attribute.Val)
			}
		}
	}
}

// No text that anybody can bring into a task, a key, a rule or an address becomes a part of any page.
func TestPoisonIsShownAsText(t *testing.T) {
	t.Parallel()
	const prefix = "/admin/tasks"
	all := dashboard.Routes()
	b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix })
	b.addPoison()
	w := newWalker(b, prefix, all)
	for _, route := range all {
		if route.Method == http.MethodGet {
			w.add(example(t, route.Path, examples))
		}
	}
	for _, id := range append(append([]string{}, poison...), oddIDs...) {
		if w.pattern(http.MethodGet, "/tasks/x") != "" {
			w.add(dashboard.TaskPath(id))
		}
	}
	w.first = maps.Clone(w.seen)
	w.walk()
	for pattern, shown := range w.shown {
		if shown == 0 && slices.Contains(poisoned, pattern) {
			t.Errorf("%s shows no poison, so it is not tested", pattern)
		}
	}
	asked := b.post("/tasks/act", "verb", "cancel", "all", "1", "filter", "").wants(t, http.StatusOK)
	if checkMarkup(t, "a question about tasks", prefix, asked.text) == 0 {
		t.Error("a question about tasks shows no poison")
	}
	w.askWithPoison()
	w.streamPoison()
	w.actWithPoison()
}

// poisoned are the pages that must have shown poison.
var poisoned = []string{"GET /tasks", "GET /tasks/{id}", "GET /dead", "GET /recurring", "GET /recurring/{id}", "GET /nodes",
	"GET /changes", "GET /keys", "GET /notices", "GET /notices/rule", "GET /notices/recipient", "GET /queues"}

// examples are values for the parts of patterns, by the first part of the path and the name, or by the name alone.
var examples = map[string]string{
	"id": poisonTask, "recurring id": poisonRecurring, "dead id": poisonTask, "name": "default", "queue": "default",
	"type": poisonTypes[0], "number": "1", "fence": "1", "revision": "1",
}

// askWithPoison asks for each page with poison in all parameters of its forms.
func (w *walker) askWithPoison() {
	w.Helper()
	for form, names := range w.fields {
		path, isPage := strings.CutPrefix(form, "GET ")
		if !isPage {
			continue
		}
		for i, text := range poison {
			values := url.Values{"after": {text}, "nothing": {text}}
			for k, name := range names {
				if alone := i % (len(names) + 1); alone == len(names) || alone == k { // one field, or all
					values.Set(name, text)
				}
			}
			got := w.get(path + "?" + values.Encode())
			if got.status >= 500 {
				w.Errorf("GET %s with %q: answer %d: %s", path, values, got.status, got.words())
			}
			checkMarkup(w.T, got.path, w.prefix, got.text)
		}
	}
}

// actWithPoison sends each form with poison in all its fields. It comes last, because some acts do what they are asked.
func (w *walker) actWithPoison() {
	w.Helper()
	number := 0 // each form gets other texts
	for form, names := range w.fields {
		number++
		path, isAct := strings.CutPrefix(form, "POST ")
		if !isAct || path == "/sign-out" || path == "/look" {
			continue
		}
		for i := range 4 {
			text := poison[(number*4+i)%len(poison)]
			values := url.Values{"back": {"/"}}
			for _, name := range names {
				values.Set(name, text)
			}
			got := w.send(http.MethodPost, path, values)
			if got.status >= 500 {
				w.Errorf("POST %.200s with %q: answer %d: %s", path, values, got.status, got.words())
			}
			checkMarkup(w.T, "POST "+path, w.prefix, got.text)
		}
	}
}

// streamPoison reads the first event of the stream of each page.
func (w *walker) streamPoison() {
	w.Helper()
	patterns := map[string]bool{}
	for path := range w.seen {
		pattern := w.pattern(http.MethodGet, path)
		if pattern == "" || patterns[pattern] || strings.HasPrefix(path, "/search") {
			continue
		}
		patterns[pattern] = true
		stream := w.open(path)
		checkMarkup(w.T, "stream of "+path, w.prefix, stream.until(""))
		stream.close()
	}
	if len(patterns) < 5 {
		w.Errorf("only the streams %v", patterns)
	}
}

var (
	inline   = regexp.MustCompile(`(?i)(\son[a-z]+|\sstyle|\ssrcdoc)\s*=|<style|javascript:|<script(?:[^>]*)>[^<]`)
	elseHost = regexp.MustCompile(`(?i)\b(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	risky    = regexp.MustCompile(`\beval\(|new Function|document\.write|insertAdjacentHTML|outerHTML|\bmain\.innerHTML`)
)

// No template has what the policy forbids, and no file names another host. Code of the page gets no text to run.
func TestFilesKeepThePolicy(t *testing.T) {
	t.Parallel()
	files := 0
	for _, dir := range []string{"templates", "static"} {
		if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(dir + "/" + path)
			if err != nil {
				return err
			}
			files++
			plain := strings.ReplaceAll(string(text), "http://www.w3.org/", "")
			for name, rule := range map[string]*regexp.Regexp{"another host": elseHost, "risky code": risky, "inline code": inline} {
				if found := rule.FindString(plain); found != "" && (dir == "templates" || name != "inline code") {
					t.Errorf("%s/%s has %s: %q", dir, path, name, found)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Errorf("only %d files", files)
	}
}
