package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

const (
	lookEach    = 500 * time.Millisecond // how often the database is asked whether anything has changed
	readAnyway  = 10 * time.Second       // then a page is read again although nothing has: "late" needs no change
	askAgain    = 5 * time.Second        // how often a stream asks whether its person may still see the page
	streamWrite = 10 * time.Second       // how long a browser may take to read an event
	maxStreams  = 500
	maxOfPerson = 25 // streams, so that one person cannot take those of all; a browser has six
	maxFeeds    = 100
	maxReading  = 2 // feeds that use a connection at once, so that people can act however slow the open pages are
)

// feeds keeps open pages up to date. All people who may see the same content of a page share one feed. So a page costs
// the database the same, however many people look at it.
type feeds struct {
	board *Dashboard

	streams  *fairuse.Shares // of people
	maxFeeds int

	turns     chan struct{} // full while maxReading feeds use a connection
	snapshots *kept[string] // asked for once, for all feeds

	mutex sync.Mutex
	open  map[feedKey]*feed
}

// feedKey has everything on which the content of a page depends.
type feedKey struct {
	page   string // path and parameters
	scopes Scopes
	tenant string
	zone   string
}

// feed is an open page.
type feed struct {
	key     feedKey
	zone    *time.Location
	readers map[chan []byte]bool
	latest  []byte
	stop    context.CancelFunc
}

func newFeeds(d *Dashboard) *feeds {
	return &feeds{
		board: d, streams: fairuse.NewShares(maxStreams, maxOfPerson), maxFeeds: maxFeeds,
		turns: make(chan struct{}, maxReading), snapshots: newKept[string](), open: map[feedKey]*feed{},
	}
}

var errTooManyStreams = errors.New("too many pages are open")

// join returns a channel on which the content of a page arrives, now and after each change. The caller must call leave.
func (s *feeds) join(
	page string, person Person, zone *time.Location,
) (content chan []byte, leave func(), err error) {
	give, err := s.streams.Take(context.Background(), person.Name+"\n"+person.Tenant, 1, 0) // it does not wait
	if err != nil {
		return nil, nil, errTooManyStreams
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := feedKey{page, person.Scopes, person.Tenant, zone.String()}
	f := s.open[key]
	if f == nil && len(s.open) >= s.maxFeeds {
		give()
		return nil, nil, errTooManyStreams
	}
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{key: key, zone: zone, readers: map[chan []byte]bool{}, stop: cancel}
		s.open[key] = f
		go s.run(ctx, f)
	}
	content = make(chan []byte, 1)
	f.readers[content] = true
	if f.latest != nil {
		content <- f.latest
	}
	return content, func() { give(); s.leave(f, content) }, nil
}

func (s *feeds) leave(f *feed, content chan []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(f.readers, content)
	if len(f.readers) == 0 {
		f.stop()
		delete(s.open, f.key)
	}
}

// publish gives the content to all readers. A reader that has not read the content before gets the newer one alone.
func (s *feeds) publish(f *feed, content []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if bytes.Equal(f.latest, content) {
		return
	}
	f.latest = content
	for reader := range f.readers {
		select {
		case <-reader:
		default:
		}
		reader <- content
	}
}

// run reads the page after each change, until nobody looks at it. A page that takes long is read less often, so that
// reading takes at most a quarter of the time.
func (s *feeds) run(ctx context.Context, f *feed) {
	var seen string
	var read time.Time
	for {
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		snapshot, err := s.snapshots.get(ctx, lookEach, func(string) (string, error) { return s.snapshot(ctx) })
		if err == nil && (snapshot != seen || began.Sub(read) >= readAnyway) {
			if content, err := s.read(ctx, f); err == nil {
				s.publish(f, content)
				seen, read = snapshot, began
			}
		}
		<-s.turns
		// Another feed may have asked for the snapshot just before. So each looks at it twice as often as anybody asks.
		timer := time.NewTimer(max(lookEach/2, 3*time.Since(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// snapshotSQL returns which transactions of the server have ended. It changes with each transaction that has written
// something, and it costs the same whatever the size of the tables. Writes of other programs on the server change it,
// too. The next transaction id alone would not do: it remains the same if the older of two transactions ends last.
const snapshotSQL = `SELECT pg_current_snapshot()::text`

func (s *feeds) snapshot(ctx context.Context) (snapshot string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.board.config.Timeout)
	defer cancel()
	err = s.board.config.Pool.QueryRow(ctx, snapshotSQL).Scan(&snapshot)
	return snapshot, err
}

// read renders the main part of the page as one event. A page that panics is an error, because in a goroutine without
// a request the panic would end the program.
func (s *feeds) read(ctx context.Context, f *feed) (event []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.board.config.Logger.Error("an open page panicked", "path", f.key.page, "panic", panicked,
				"stack", string(debug.Stack()))
			err = errors.New("the page panicked")
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.key.page, nil)
	if err != nil {
		return nil, err
	}
	v := s.board.read(request, Person{Scopes: f.key.scopes, Tenant: f.key.tenant}, look{zone: f.zone})
	if v.answer.status == http.StatusServiceUnavailable {
		return nil, errors.New("the database gave no answer")
	}
	main, err := s.board.main(frame{visit: v, Title: v.answer.title, View: v.answer.view}, v.answer.template)
	if err != nil {
		s.board.config.Logger.Error("a page could not be rendered", "path", request.URL.Path, "error", err)
		return nil, err
	}
	encoded, err := json.Marshal(main)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "data: %s\n\n", encoded), nil
}

// isPage reports whether there is a page at an address, so that nobody can open feeds of addresses without one.
func (d *Dashboard) isPage(address string) bool {
	parsed, err := url.ParseRequestURI(address)
	if err != nil {
		return false
	}
	_, pattern := d.views.Handler(&http.Request{Method: http.MethodGet, URL: parsed})
	return pattern != ""
}

// serveLive streams the main part of a page, now and after each change. The stream ends when the person may no longer
// see the page. The browser then asks again.
func (d *Dashboard) serveLive(w http.ResponseWriter, r *http.Request) {
	person, err := d.whoIs(r)
	if err != nil {
		http.Error(w, "not signed in", http.StatusUnauthorized)
		return
	}
	address := d.localPath(r.URL.Query().Get("page"))
	if !d.isPage(address) {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	zone := lookOf(r).zone
	content, leave, err := d.feeds.join(address, person, zone)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events
	control := http.NewResponseController(w)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	send := func(event []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite)) // tests write to memory, which has none
		_, err := w.Write(event)
		return err == nil && control.Flush() == nil
	}
	for send([]byte(": live\n\n")) {
		select {
		case <-r.Context().Done():
			return
		case event := <-content:
			if !send(event) {
				return
			}
		case <-again.C:
			// The comment keeps proxies from ending a stream that is silent.
			if now, err := d.whoIs(r); err != nil || now != person || !send([]byte(": live\n\n")) {
				return
			}
		}
	}
}
