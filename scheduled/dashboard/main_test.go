package dashboard_test

import (
	"bytes"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// board is a dashboard in a browser that keeps cookies. It is signed in as an admin unless the test says otherwise.
type board struct {
	*testing.T

	pool   *pgxpool.Pool
	tasks  *store.Store
	url    string // with the prefix
	client *http.Client
	log    *logText
	made   *dashboard.Dashboard
}

// newBoard serves a dashboard. Its people are authenticated by a key, or by the function of a change to its Config.
func newBoard(t *testing.T, changes ...func(*dashboard.Config)) *board {
	t.Helper()
	return boardOf(t, storetest.Pool(t), changes...)
}

// boardOf is newBoard on a database that there is.
func boardOf(t *testing.T, pool *pgxpool.Pool, changes ...func(*dashboard.Config)) *board {
	t.Helper()
	log := &logText{}
	config := dashboard.Config{
		Pool: pool, Logger: slog.New(slog.NewTextHandler(log, nil)), Timeout: time.Minute, // a busy machine
		SignInRate: 10000,
	}
	for _, change := range changes {
		change(&config)
	}
	made, err := dashboard.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(made.Handler())
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	client.Jar = jar
	return &board{
		T: t, pool: config.Pool, tasks: store.New(store.Config{Service: "test"}), url: server.URL + config.Prefix,
		client: client, log: log, made: made,
	}
}

// poolOf is a pool of a configuration that a test has changed.
func poolOf(t *testing.T, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// eventually waits until something is so. what says of it what has not come.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

const patience = 60 * time.Second

// newAdmin is newBoard, with somebody signed in by a key of all scopes.
func newAdmin(t *testing.T, changes ...func(*dashboard.Config)) *board {
	t.Helper()
	b := newBoard(t, changes...)
	b.signIn("ann", keys.Scopes()...)
	return b
}

// newKey makes a key, and returns its secret.
func (b *board) newKey(name string, scopes ...keys.Scope) string {
	b.Helper()
	secret, _, err := keys.New(keys.Config{}).Create(b.Context(), b.pool, keys.NewKey{Name: name, Scopes: scopes})
	if err != nil {
		b.Fatal(err)
	}
	return secret
}

// signIn signs in with a new key.
func (b *board) signIn(name string, scopes ...keys.Scope) {
	b.Helper()
	b.post("/sign-in", "key", b.newKey(name, scopes...)).wants(b.T, http.StatusOK)
}

// noRedirects keeps the client from following redirects.
func (b *board) noRedirects() *board {
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// reply is an answer, after redirects.
type reply struct {
	status int
	header http.Header
	path   string // at which redirects ended, with its parameters
	text   string
}

var tags = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>|\s+`)

// words is the text of a page without its tags, with single spaces.
func (r reply) words() string {
	text := tags.ReplaceAllString(r.text, " ")
	return strings.Join(strings.Fields(text), " ")
}

// ids are the keys of the rows of a page, in order, such as the ids of tasks.
func (r reply) ids() (ids []string) {
	for _, found := range regexp.MustCompile(`<tr data-key="([^"]*)"`).FindAllStringSubmatch(r.text, -1) {
		ids = append(ids, html.UnescapeString(found[1]))
	}
	return ids
}

// rows are the ids as one text.
func (r reply) rows() string { return strings.Join(r.ids(), " | ") }

// next is the address of the next page, or "".
func (r reply) next() string {
	found := regexp.MustCompile(`<a href="([^"]*)" rel="next">`).FindStringSubmatch(r.text)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// hidden are the hidden fields of a page's forms, as names and values by turns.
func (r reply) hidden() (fields []string) {
	const input = `<input type="hidden" name="([^"]*)" value="([^"]*)">`
	for _, field := range regexp.MustCompile(input).FindAllStringSubmatch(r.text, -1) {
		fields = append(fields, field[1], html.UnescapeString(field[2]))
	}
	return fields
}

// field is the value of the first hidden field of a name.
func (r reply) field(t *testing.T, name string) string {
	t.Helper()
	fields := r.hidden()
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == name {
			return fields[i+1]
		}
	}
	t.Fatalf("no field %s in %s", name, r.text)
	return ""
}

func (r reply) wants(t *testing.T, status int, parts ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("%s: answer %d, want %d: %s", r.path, r.status, status, r.words())
	}
	for _, part := range parts {
		if !strings.Contains(r.words(), part) && !strings.Contains(r.text, part) {
			t.Errorf("%s: no %q in: %s", r.path, part, r.words())
		}
	}
	return r
}

func (r reply) lacks(t *testing.T, parts ...string) reply {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(r.text, part) || strings.Contains(r.words(), part) {
			t.Errorf("%s: has %q: %s", r.path, part, r.words())
		}
	}
	return r
}

func (b *board) get(path string) reply {
	b.Helper()
	return b.send(http.MethodGet, path, nil)
}

// post sends a form of names and values by turns.
func (b *board) post(path string, fields ...string) reply {
	b.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.send(http.MethodPost, path, form)
}

const formType = "application/x-www-form-urlencoded"

// refuses posts forms that break a rule. Each answer has the rule, and what all have.
func (b *board) refuses(path string, forms map[string][]string, all ...string) {
	b.Helper()
	for rule, form := range forms {
		b.post(path, form...).wants(b.T, http.StatusUnprocessableEntity, append(all, rule)...)
	}
}

// send sends a request. The headers are pairs of a name and a value.
func (b *board) send(method, path string, form url.Values, headers ...string) reply {
	b.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(b.Context(), method, b.url+path, body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", formType)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.Fatalf("%s %s: %v", method, path, err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		b.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, response.Request.URL.RequestURI(), string(text)}
}

// must fails the test after a call that has failed.
func (b *board) must(_ any, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *board) exec(sql string, args ...any) {
	b.Helper()
	b.must(b.pool.Exec(b.Context(), sql, args...))
}

// asEngine runs a statement as the engine does, so that tasks keep their revisions.
func (b *board) asEngine(sql string, args ...any) {
	b.Helper()
	err := pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(b.Context(), `SELECT set_config('tasktable_change.context', 'engine', true)`); err != nil {
			return err
		}
		_, err := tx.Exec(b.Context(), sql, args...)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *board) schedule(task store.Task) {
	b.Helper()
	b.must(b.tasks.Schedule(b.Context(), b.pool, task))
}

func (b *board) row(id string) store.Row {
	b.Helper()
	row, err := b.tasks.Get(b.Context(), b.pool, id)
	if err != nil {
		b.Fatal(err)
	}
	return row
}

func (b *board) revision(id string) string {
	b.Helper()
	return strconv.FormatInt(b.row(id).Revision, 10)
}

// logText is a log that tests read.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
