package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// stream is an open page that is kept up to date.
type stream struct {
	t      *testing.T
	events chan string // the main part of the page; closed when the stream has ended
	close  func()
}

// open opens the stream of a page. The headers are pairs of a name and a value.
func (b *board) open(page string, headers ...string) *stream {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.client.Do(request) //nolint:bodyclose // the goroutine that reads it closes it
	if err != nil {
		b.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		b.Fatalf("the stream of %s: answer %d, %s", page, response.StatusCode, kind)
	}
	s := &stream{b.T, make(chan string, 1000), cancel}
	b.Cleanup(cancel)
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

// watched is a board for the people of the matrix that counts reads.
type watched struct {
	*board

	reads readsOfRules
}

func newWatched(t *testing.T, changes ...func(*dashboard.Config)) *watched {
	t.Helper()
	w := &watched{}
	traced := func(c *dashboard.Config) {
		config := c.Pool.Config()
		config.ConnConfig.Tracer = &w.reads
		c.Pool = poolOf(t, config)
	}
	w.board = newBoard(t, append([]func(*dashboard.Config){traced, ofMatrix}, changes...)...)
	return w
}

// notice schedules a task that the page of notices shows.
func (w *watched) notice(id string) {
	w.Helper()
	w.schedule(store.Task{ID: id, Payload: store.JSON(`{"type":"NOTICE","rule":"dead","recipient":"ops"}`)})
}

// empty waits until no stream is open.
func (w *watched) empty() {
	w.Helper()
	eventually(w.T, "streams are open", func() bool {
		streams, pages := w.made.OpenFeeds()
		return streams == 0 && pages == 0
	})
}

// ask asks for a stream that is refused.
func (w *watched) ask(page, person string) reply {
	w.Helper()
	return w.send(http.MethodGet, "/live?page="+url.QueryEscape(page), nil, "X-Person", person)
}

// Ten open pages cost the database what one costs, and each gets a change.
func TestTenReadersCostOneRead(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	var streams []*stream
	began := time.Now()
	for range 10 {
		streams = append(streams, w.open("/notices", "X-Person", "admin"))
	}
	if n, pages := w.made.OpenFeeds(); n != 10 || pages != 1 {
		t.Errorf("%d streams of %d pages", n, pages)
	}
	for change := range 5 {
		id := fmt.Sprintf("notice-%d", change)
		w.notice(id)
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
	w.empty()
	before := w.reads.n.Load()
	w.notice("nobody looks")
	w.open("/keys", "X-Person", "admin").until("Keys")
	if after := w.reads.n.Load(); after != before {
		t.Errorf("a page that nobody looks at was read %d times", after-before)
	}
}

// The machine may be busy, so it is enough that one of some changes arrives in time.
func TestChangeArrivesWithinASecond(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	one := w.open("/notices", "X-Person", "admin")
	one.until("Notices")
	fastest := time.Hour
	for change := range 10 {
		id := fmt.Sprintf("notice-%d", change)
		w.notice(id)
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
	w := newWatched(t)
	older, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.Exec(t.Context(), `CREATE TABLE public.older ()`); err != nil {
		t.Fatal(err)
	}
	w.notice("younger")
	before, err := w.made.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := w.made.Snapshot(t.Context()); err != nil || after == before {
		t.Errorf("the snapshot is still %s, %v", after, err)
	}
}

// A stream shows each person what a page would show: no more, and nothing without a page.
func TestStreamShowsWhatItsPersonMaySee(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.notice("secret")
	admin := w.open("/notices", "X-Person", "admin")
	admin.until("secret")
	for _, name := range []string{"read", "operate", "tenant admin"} {
		first := w.open("/notices", "X-Person", name).until("Not allowed")
		if strings.Contains(first, "secret") {
			t.Errorf("%s sees %s", name, first)
		}
	}
	for _, page := range []string{"/nowhere", "/live", "/live?page=/notices", "/static/style.css", "/keys/revoke"} {
		w.ask(page, "read").wants(t, http.StatusNotFound)
	}
	for _, page := range []string{"", "//notices", "https://evil.example/", "notices", "/notices/../keys"} {
		if first := w.open(page, "X-Person", "read").until("Overview"); strings.Contains(first, "secret") {
			t.Errorf("the stream of %q shows %s", page, first)
		}
	}
}

// A stream ends when the person may no longer see the page, and not only when the browser goes.
func TestRevokedKeyEndsTheStream(t *testing.T) {
	t.Parallel()
	w := newWatched(t, func(c *dashboard.Config) { c.Authenticate = nil })
	w.signIn("ann", keys.Scopes()...)
	one := w.open("/notices")
	one.until("Notices")
	w.must(keys.New(keys.Config{}).Revoke(t.Context(), w.pool, "ann", "bob"))
	one.ended()
	w.empty()
	w.ask("/notices", "").wants(t, http.StatusUnauthorized)
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.made.LimitStreams(3, 2)
	var streams []*stream
	for _, page := range []string{"/notices", "/keys"} {
		streams = append(streams, w.open(page, "X-Person", "admin"))
	}
	refused := w.ask("/keys/new", "admin").wants(t, http.StatusServiceUnavailable)
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("the refusal of a third page has %v", refused.header)
	}
	streams = append(streams, w.open("/keys", "X-Person", "admin"))
	w.ask("/keys", "admin").wants(t, http.StatusServiceUnavailable)
	for _, one := range streams {
		one.close()
	}
	w.empty()
	w.open("/keys/new", "X-Person", "admin").until("New key")
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
	page := b.open("/tasks/sealed")
	page.until("gold")
	codec.broken.Store(true)
	b.schedule(store.Task{ID: "other", Payload: store.JSON(`{"type": "REPORT"}`)}) // so that the page is read again
	eventually(t, "the panic is not in the log", func() bool {
		return strings.Contains(b.log.String(), "an open page panicked")
	})
	codec.broken.Store(false)
	b.must(b.tasks.Pause(t.Context(), b.pool, "sealed"))
	page.until("PAUSED")
}

// Open pages that are slow must leave connections to people who act.
func TestSlowOpenPagesLeaveConnections(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("admin", dashboard.All, ""), func(c *dashboard.Config) {
		config := c.Pool.Config()
		config.MaxConns = 4
		c.Pool = poolOf(t, config)
	})
	blocker, err := pgx.ConnectConfig(t.Context(), b.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blocker.Close(context.Background()) })
	if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE tasktable.notice_rules IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		b.open(fmt.Sprintf("/notices?x=%d", i))
	}
	waits := 0 // pages that wait for the lock
	for began := time.Now(); waits < 2 || time.Since(began) < 4*dashboard.LookEach; <-time.After(5 * time.Millisecond) {
		if err := blocker.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits > 2 || time.Since(began) > patience {
			t.Fatalf("%d connections are used by open pages, want 2", waits)
		}
	}
	b.get("/keys").wants(t, http.StatusOK)
}

// Open pages together ask twice a second whether anything was written, however many they are.
func TestManyPagesAskOnce(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	began := time.Now()
	for i := range 20 {
		w.open(fmt.Sprintf("/keys/new?x=%d", i), "X-Person", "admin").until("New key")
	}
	before, from := w.reads.snapshots.Load(), time.Now()
	for change := range 5 {
		id := fmt.Sprintf("notice-%d", change)
		w.notice(id)
		w.open("/notices", "X-Person", "admin").until(id)
	}
	<-time.After(time.Until(from.Add(4 * dashboard.LookEach)))
	if asked, most := w.reads.snapshots.Load(), int64(time.Since(began)/dashboard.LookEach)+2; asked > most || asked <= before {
		t.Errorf("asked %d times in %v, want at most %d", asked, time.Since(began), most)
	}
}

// One person cannot take the streams of all.
func TestTooManyStreamsOfOnePerson(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	var streams []*stream
	for i := range 25 {
		streams = append(streams, w.open(fmt.Sprintf("/keys/new?x=%d", i), "X-Person", "tenant read"))
	}
	for range 2 {
		w.ask("/keys/new", "tenant read").wants(t, http.StatusServiceUnavailable)
	}
	w.open("/keys/new", "X-Person", "admin").until("New key")
	streams[0].close()
	eventually(t, "the stream has not ended", func() bool {
		n, _ := w.made.OpenFeeds()
		return n == 25
	})
	w.open("/keys/new", "X-Person", "tenant read").until("Not allowed")
}
