//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
)

// follower is a client of the API's events. It connects again whenever its stream ends, after the last event that it
// has got.
type follower struct {
	url, secret string
	client      *http.Client
	stop        context.CancelFunc
	done        chan struct{} // closed when it has stopped

	mu   sync.Mutex
	last string          // the id of the last event
	got  map[lineKey]int // how many times it has got the event of a line
}

// followedWithin is how long the last events may take.
const followedWithin = 15 * time.Second

// follow begins to follow the events, and returns when the stream has begun.
func (r *harness) follow(ctx context.Context) error {
	reading, stop := context.WithCancel(context.Background())
	f := &follower{
		url: "http://" + r.api.front.address + "/v1/events", secret: r.api.secret,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		stop:   stop, done: make(chan struct{}), got: map[lineKey]int{},
	}
	r.follower = f
	go func() {
		defer close(f.done)
		for wait(reading, 100*time.Millisecond) == nil {
			_ = f.read(reading) // it ends with each fault of the API
		}
	}()
	for {
		f.mu.Lock()
		began := f.last != ""
		f.mu.Unlock()
		if began {
			return nil
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("follow the events: %w", err)
		}
	}
}

// read reads one stream to its end. An event that has come in part is read again.
func (f *follower) read(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+f.secret)
	if f.last != "" {
		request.Header.Set("Last-Event-ID", f.last)
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 4<<20) // two payloads and more
	id, data := "", ""
	for lines.Scan() {
		line := lines.Text()
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case line == "":
			f.note(id, data)
			id, data = "", ""
		}
	}
	return lines.Err()
}

// note notes an event, or an id without one. Events of notices are left out, as the audit leaves them out.
func (f *follower) note(id, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = id
	var event api.Event
	switch {
	case data == "" || json.Unmarshal([]byte(data), &event) != nil:
	case event.Kind == "execution":
		f.got[lineKey{"executions", event.Execution.Fence}]++
	case !strings.HasPrefix(event.Change.TaskID, "notice/"):
		f.got[lineKey{"changes", event.Change.Revision}]++
	}
}

// events waits until the follower has got as many events as there are lines, and returns them.
func (f *follower) events(pool *pgxpool.Pool) map[lineKey]int {
	ctx, cancel := context.WithTimeout(context.Background(), followedWithin)
	defer cancel()
	for wait(ctx, 200*time.Millisecond) == nil {
		written := 0
		err := pool.QueryRow(ctx, `SELECT count(*) FROM torture.lines WHERE op = 'INSERT'`).Scan(&written)
		f.mu.Lock()
		got := len(f.got)
		f.mu.Unlock()
		if err == nil && got >= written {
			break
		}
	}
	f.stop()
	<-f.done
	return f.got
}
