package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

const patience = 60 * time.Second

// stream is an open page that is kept up to date.
type stream struct {
	t      *testing.T
	events chan string // the main part of the page; closed when the stream has ended
	close  func()
}

// open opens the stream of a page. The headers are pairs of a name and a value.
func open(t *testing.T, client *http.Client, base, page string, headers ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request) //nolint:bodyclose // the goroutine that reads it closes it
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("the stream of %s: answer %d, %s", page, response.StatusCode, kind)
	}
	s := &stream{t, make(chan string, 1000), cancel}
	t.Cleanup(cancel)
	go func() {
		defer close(s.events)
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var main string
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &main) == nil {
				s.events <- main
			}
		}
	}()
	return s
}

// until returns the first event that has a text.
func (s *stream) until(text string) string {
	s.t.Helper()
	timer := time.After(patience)
	for {
		select {
		case event, open := <-s.events:
			if !open {
				s.t.Fatalf("the stream has ended before it had %q", text)
			}
			if strings.Contains(event, text) {
				return event
			}
		case <-timer:
			s.t.Fatalf("no event has %q", text)
		}
	}
}

// ended waits for the end of the stream.
func (s *stream) ended() {
	s.t.Helper()
	timer := time.After(patience)
	for {
		select {
		case _, open := <-s.events:
			if !open {
				return
			}
		case <-timer:
			s.t.Fatal("the stream has not ended")
		}
	}
}

// readsOfRules counts the statements that read the page of notices, and those that ask whether anything was written.
type readsOfRules struct{ n, snapshots atomic.Int64 }

func (r *readsOfRules) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "tasktable.notice_rules AS r ORDER BY r.name") {
		r.n.Add(1)
	}
	if strings.Contains(data.SQL, "pg_current_snapshot()") {
		r.snapshots.Add(1)
	}
	return ctx
}

func (*readsOfRules) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// watched is a dashboard that tests look into.
type watched struct {
	*dashboard.Dashboard
	pool   *pgxpool.Pool
	reads  readsOfRules
	server *httptest.Server
}

// newWatched serves a dashboard to the people of the matrix, or to those with a key.
func newWatched(t *testing.T, byKey bool) *watched {
	t.Helper()
	w := &watched{}
	config := storetest.Pool(t).Config()
	config.ConnConfig.Tracer = &w.reads
	var err error
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	settings := dashboard.Config{Pool: w.pool, Authenticate: func(r *http.Request) (dashboard.Person, error) {
		return people[r.Header.Get("X-Person")], nil
	}}
	if byKey {
		settings.Authenticate = nil
	}
	if w.Dashboard, err = dashboard.New(settings); err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(w.Handler())
	t.Cleanup(w.server.Close)
	return w
}

func (w *watched) schedule(t *testing.T, id string) {
	t.Helper()
	payload := store.JSON(`{"type":"NOTICE","rule":"dead","recipient":"ops"}`)
	if _, err := store.New(store.Config{}).Schedule(t.Context(), w.pool, store.Task{ID: id, Payload: payload}); err != nil {
		t.Fatal(err)
	}
}

// empty waits until no stream is open.
func (w *watched) empty(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; tick() {
		streams, pages := w.OpenFeeds()
		if streams == 0 && pages == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d streams of %d pages are open", streams, pages)
		}
	}
}

// Ten open pages cost the database what one costs, and each gets a change.
func TestTenReadersCostOneRead(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	var streams []*stream
	began := time.Now()
	for range 10 {
		streams = append(streams, open(t, w.server.Client(), w.server.URL, "/notices", "X-Person", "admin"))
	}
	if n, pages := w.OpenFeeds(); n != 10 || pages != 1 {
		t.Errorf("%d streams of %d pages", n, pages)
	}
	for change := range 5 {
		id := fmt.Sprintf("notice-%d", change)
		w.schedule(t, id)
		for _, one := range streams {
			one.until(id)
		}
	}
	if reads, most := w.reads.n.Load(), int64(time.Since(began)/dashboard.LookEach)+2; reads > most || reads < 5 {
		t.Errorf("%d reads in %v, want 5 to %d", reads, time.Since(began), most)
	}
	for _, one := range streams {
		one.close()
	}
	w.empty(t)
	before := w.reads.n.Load()
	w.schedule(t, "nobody looks")
	open(t, w.server.Client(), w.server.URL, "/keys", "X-Person", "admin").until("Keys")
	if after := w.reads.n.Load(); after != before {
		t.Errorf("a page that nobody looks at was read %d times", after-before)
	}
}

// The machine may be busy, so it is enough that one of some changes arrives in time.
func TestChangeArrivesWithinASecond(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	one := open(t, w.server.Client(), w.server.URL, "/notices", "X-Person", "admin")
	one.until("Notices")
	fastest := time.Hour
	for change := range 10 {
		id := fmt.Sprintf("notice-%d", change)
		w.schedule(t, id)
		began := time.Now()
		one.until(id)
		if fastest = min(fastest, time.Since(began)); fastest < time.Second {
			return
		}
	}
	t.Errorf("the fastest change has arrived after %v", fastest)
}

// A change is noticed also if a younger transaction has ended before it.
func TestMarkOfOverlappingTransactions(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	older, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.Exec(t.Context(), `CREATE TABLE public.older ()`); err != nil {
		t.Fatal(err)
	}
	w.schedule(t, "younger")
	before, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := w.Snapshot(t.Context()); err != nil || after == before {
		t.Errorf("the snapshot is still %s, %v", after, err)
	}
}

// A stream shows each person what a page would show: no more, and nothing without a page.
func TestStreamShowsWhatItsPersonMaySee(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	w.schedule(t, "secret")
	admin := open(t, w.server.Client(), w.server.URL, "/notices", "X-Person", "admin")
	admin.until("secret")
	for _, name := range []string{"read", "operate", "tenant admin"} {
		first := open(t, w.server.Client(), w.server.URL, "/notices", "X-Person", name).until("Not allowed")
		if strings.Contains(first, "secret") {
			t.Errorf("%s sees %s", name, first)
		}
	}
	for _, page := range []string{"", "/nowhere", "/live", "/live?page=/notices", "//notices", "https://evil.example/", "/static/style.css",
		"/notices/../keys", "notices", "/keys/revoke"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?page="+url.QueryEscape(page), nil)
		request.Header.Set("X-Person", "read")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer := httptest.NewRecorder()
		if page == "" || strings.HasPrefix(page, "//") || !strings.HasPrefix(page, "/") {
			cancel() // it is the first page, whose stream does not end by itself
		}
		w.Handler().ServeHTTP(answer, request.WithContext(ctx))
		cancel()
		if strings.Contains(answer.Body.String(), "secret") || answer.Code != http.StatusNotFound && answer.Code != http.StatusOK {
			t.Errorf("the stream of %q: answer %d: %s", page, answer.Code, answer.Body)
		}
		if strings.HasPrefix(page, "/") && !strings.HasPrefix(page, "//") && !strings.Contains(page, "..") && answer.Code != http.StatusNotFound {
			t.Errorf("there is a stream of %q", page)
		}
	}
}

// A stream ends when the person may no longer see the page, and not only when the browser goes.
func TestRevokedKeyEndsTheStream(t *testing.T) {
	t.Parallel()
	w := newWatched(t, true)
	all := keys.New(keys.Config{})
	secret, _, err := all.Create(t.Context(), w.pool, keys.NewKey{Name: "ann", Scopes: keys.Scopes()})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := all.OpenSession(t.Context(), w.pool, secret, time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cookie := []string{"Cookie", "tasktable_session=" + token}
	one := open(t, w.server.Client(), w.server.URL, "/notices", cookie...)
	one.until("Notices")
	if _, err := all.Revoke(t.Context(), w.pool, "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	one.ended()
	w.empty(t)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?page=/notices", nil)
	request.Header.Set(cookie[0], cookie[1])
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusUnauthorized {
		t.Errorf("answer %d", answer.Code)
	}
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	w.LimitStreams(3, 2)
	ask := func(page string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?page="+url.QueryEscape(page), nil)
		request.Header.Set("X-Person", "admin")
		answer := httptest.NewRecorder()
		w.Handler().ServeHTTP(answer, request)
		return answer
	}
	var streams []*stream
	for _, page := range []string{"/notices", "/keys"} {
		streams = append(streams, open(t, w.server.Client(), w.server.URL, page, "X-Person", "admin"))
	}
	if answer := ask("/keys/new"); answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("a third page: answer %d", answer.Code)
	}
	streams = append(streams, open(t, w.server.Client(), w.server.URL, "/keys", "X-Person", "admin"))
	if answer := ask("/keys"); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("a fourth stream: answer %d", answer.Code)
	}
	for _, one := range streams {
		one.close()
	}
	w.empty(t)
	open(t, w.server.Client(), w.server.URL, "/keys/new", "X-Person", "admin").until("New key")
}

// brokenCodec panics, as code of a service may.
type brokenCodec struct{ broken atomic.Bool }

func (*brokenCodec) Encode(_ context.Context, _, _ string, plain []byte) (string, []byte, error) {
	return "broken", plain, nil
}

func (c *brokenCodec) Decode(_ context.Context, _, _, _ string, data []byte) ([]byte, error) {
	if c.broken.Load() {
		panic("the codec is broken")
	}
	return data, nil
}

// A page that panics must not end the program, also when an open page reads it again without a request.
func TestOpenPagePanics(t *testing.T) {
	t.Parallel()
	codec := &brokenCodec{}
	b := newAdmin(t, func(c *dashboard.Config) {
		c.Store = store.Config{Codec: codec}
		c.PayloadScope = dashboard.Read
	})
	b.tasks = store.New(store.Config{Service: "test", Codec: codec})
	b.schedule(store.Task{ID: "sealed", Payload: store.JSON(`{"type": "REPORT", "of": "gold"}`), At: time.Now().Add(time.Hour)})
	page := open(t, b.client, b.url, "/tasks/sealed")
	page.until("gold")
	codec.broken.Store(true)
	b.schedule(store.Task{ID: "other", Payload: store.JSON(`{"type": "REPORT"}`)}) // so that the page is read again
	for deadline := time.Now().Add(patience); !strings.Contains(b.log.String(), "an open page panicked"); tick() {
		if time.Now().After(deadline) {
			t.Fatalf("the log is %s", b.log)
		}
	}
	codec.broken.Store(false)
	if _, err := b.tasks.Pause(t.Context(), b.pool, "sealed"); err != nil {
		t.Fatal(err)
	}
	page.until("PAUSED")
}

// Open pages that are slow must leave connections to people who act.
func TestSlowOpenPagesLeaveConnections(t *testing.T) {
	t.Parallel()
	config := storetest.Pool(t).Config()
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	board, err := dashboard.New(dashboard.Config{Pool: pool, Timeout: patience,
		Authenticate: func(*http.Request) (dashboard.Person, error) { return people["admin"], nil }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	blocker, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blocker.Close(context.Background()) })
	if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE tasktable.notice_rules IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		open(t, server.Client(), server.URL, fmt.Sprintf("/notices?x=%d", i))
	}
	waits := 0 // pages that wait for the lock
	for began := time.Now(); waits < 2 || time.Since(began) < 4*dashboard.LookEach; tick() {
		if err := blocker.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits > 2 || time.Since(began) > patience {
			t.Fatalf("%d connections are used by open pages, want 2", waits)
		}
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/keys", nil)
	answer := httptest.NewRecorder()
	board.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Errorf("another page: answer %d", answer.Code)
	}
}

// Open pages together ask twice a second whether anything was written, however many they are.
func TestManyPagesAskOnce(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	began := time.Now()
	for i := range 20 {
		open(t, w.server.Client(), w.server.URL, fmt.Sprintf("/keys/new?x=%d", i), "X-Person", "admin").until("New key")
	}
	before, from := w.reads.snapshots.Load(), time.Now()
	for change := range 5 {
		id := fmt.Sprintf("notice-%d", change)
		w.schedule(t, id)
		open(t, w.server.Client(), w.server.URL, "/notices", "X-Person", "admin").until(id)
	}
	for time.Since(from) < 4*dashboard.LookEach {
		tick()
	}
	if asked, most := w.reads.snapshots.Load(), int64(time.Since(began)/dashboard.LookEach)+2; asked > most || asked <= before {
		t.Errorf("asked %d times in %v, want at most %d", asked, time.Since(began), most)
	}
}

// One person cannot take the streams of all.
func TestTooManyStreamsOfOnePerson(t *testing.T) {
	t.Parallel()
	w := newWatched(t, false)
	var streams []*stream
	for i := range 25 {
		streams = append(streams, open(t, w.server.Client(), w.server.URL, fmt.Sprintf("/keys/new?x=%d", i), "X-Person", "tenant read"))
	}
	for range 2 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?page=/keys/new", nil)
		request.Header.Set("X-Person", "tenant read")
		answer := httptest.NewRecorder()
		w.Handler().ServeHTTP(answer, request)
		if answer.Code != http.StatusServiceUnavailable {
			t.Fatalf("one more stream: answer %d", answer.Code)
		}
	}
	open(t, w.server.Client(), w.server.URL, "/keys/new", "X-Person", "admin").until("New key")
	streams[0].close()
	for deadline := time.Now().Add(patience); ; tick() {
		if n, _ := w.OpenFeeds(); n == 25 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream has not ended")
		}
	}
	open(t, w.server.Client(), w.server.URL, "/keys/new", "X-Person", "tenant read").until("Not allowed")
}

// tick is the time between two looks at something that is awaited.
func tick() { <-time.After(5 * time.Millisecond) }
