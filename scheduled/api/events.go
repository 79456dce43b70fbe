package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

const (
	maxStreams   = 100              // of one API at once
	callerMost   = 10               // of them of one caller
	readsAtOnce  = 2                // so that streams leave connections to calls
	eventsPause  = time.Second      // between two reads of a stream
	eventsPage   = 1000             // lines of the history in one read
	eventsPing   = 15 * time.Second // how often a stream without events says that it lives
	eventsWrite  = 10 * time.Second // how long a client may take to read an event
	streamLife   = 15 * time.Minute // then the client comes back, and shows its key again
	eventsPath   = "/v1/events"
	eventsFormat = "id: %s\nevent: %s\ndata: %s\n\n"
)

// Event is a line of the history of some task.
type Event struct {
	Kind      string           `json:"kind" enum:"change,execution"`
	Change    *Change          `json:"change,omitempty"`
	Execution *store.Execution `json:"execution,omitempty"`
}

type eventsInput struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"256"`
}

func (a *API) registerEvents() {
	event := a.huma.OpenAPI().Components.Schemas.Schema(eventType, true, "Event")
	register(a, keys.Read, huma.Operation{
		OperationID: "followEvents", Method: http.MethodGet, Path: eventsPath, Tags: []string{"tasks"},
		Summary: "Follow what happens to the tasks",
		Description: "A stream of server-sent events: each edit, and the outcome of each attempt. With the header " +
			"Last-Event-ID it goes on after that event, and skips none. It may repeat some, so compare the revision " +
			"of a change and the fence of an execution. The order is roughly that of the commits. The stream ends " +
			"after 15 minutes, and then the client connects again, as every client of server-sent events does. A key " +
			"of a tenant gets no events of a task that is deleted, because then Postgres does not know whose it was.",
		Errors: []int{http.StatusUnprocessableEntity},
		Responses: map[string]*huma.Response{"200": {
			Description: "The data of each event is a JSON object.",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: event}},
		}},
	}, a.followEvents)
}

func (a *API) followEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	var from *mark
	if in.LastEventID != "" {
		parsed, err := parseMark(in.LastEventID)
		if err != nil {
			return nil, err
		}
		from = &parsed
	}
	caller := callerOf(ctx)
	s, err := a.newStream(ctx, caller, from)
	if err != nil {
		return nil, err
	}
	if !a.streams.open(caller.Name) {
		return nil, huma.ErrorWithHeaders(refusal(CodeTooManyStreams, "too many streams are open"),
			http.Header{"Retry-After": {"5"}})
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer a.streams.close(caller.Name)
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		if err := s.follow(ctx, w); err != nil && ctx.Err() == nil {
			a.config.Logger.Info("a stream of events ended", "request", requestID(ctx), "error", err)
		}
	}}, nil
}

// streams counts the streams that are open, and bounds how many of them read at once.
type streams struct {
	mu      sync.Mutex
	all     int
	callers map[string]int
	reading chan struct{}
}

func newStreams() *streams {
	return &streams{callers: map[string]int{}, reading: make(chan struct{}, readsAtOnce)}
}

func (s *streams) open(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == maxStreams || s.callers[caller] == callerMost {
		return false
	}
	s.all++
	s.callers[caller]++
	return true
}

func (s *streams) close(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.callers[caller]--; s.callers[caller] == 0 {
		delete(s.callers, caller)
	}
}

// stream is one client that follows events.
type stream struct {
	api    *API
	caller Caller
	at     mark
	// sent has the events that the client has, and that the next read finds again, because their transactions are not
	// older than the mark.
	sent map[string]bool
}

func (a *API) newStream(ctx context.Context, caller Caller, from *mark) (*stream, error) {
	s := &stream{api: a, caller: caller, sent: map[string]bool{}}
	now, _, err := a.marks.now(ctx, a.config.Pool)
	if err != nil {
		return nil, err
	}
	s.at = now.mark
	if from != nil {
		if from.Xid > now.xmax { // of another server, such as one that was restored from a dump
			return nil, errOtherStream
		}
		s.at = *from
	}
	return s, nil
}

// follow writes events until ctx ends, the client is gone, or the client has to show its key again. Between two reads
// it holds no connection.
func (s *stream) follow(ctx context.Context, w http.ResponseWriter) error {
	control := http.NewResponseController(w)
	write := func(lines ...string) error {
		for _, line := range lines {
			if err := control.SetWriteDeadline(time.Now().Add(eventsWrite)); err != nil {
				return fmt.Errorf("limit the time of a write: %w", err)
			}
			if _, err := io.WriteString(w, line); err != nil {
				return fmt.Errorf("write an event: %w", err)
			}
		}
		if err := control.Flush(); err != nil {
			return fmt.Errorf("send events: %w", err)
		}
		return nil
	}
	pause, lastWrite := time.NewTicker(eventsPause), time.Time{}
	defer pause.Stop()
	for began := time.Now(); time.Since(began) < streamLife; {
		wrote, err := s.send(ctx, write)
		if err == nil && !wrote && time.Since(lastWrite) >= eventsPing {
			wrote, err = true, write(": the stream lives\n\n")
		}
		if err != nil {
			return err
		}
		if wrote {
			lastWrite = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
	return nil
}

// send writes the new events, page by page in the order of their transactions, so that a client that breaks off has a
// part of them. The id of an event says that the client has all events of the transactions below its own. This can be
// said of transactions that had ended before the read began.
func (s *stream) send(ctx context.Context, write func(...string) error) (wrote bool, err error) {
	next, sure, err := s.api.marks.now(ctx, s.api.config.Pool) // before the read, so that nothing falls in between
	if err != nil {
		return false, err
	}
	if !sure { // the bounds of before still hold, because next.Xid is not lower
		next.Revision, next.At = s.at.Revision, s.at.At
	}
	kept := map[string]bool{}
	var after place
	for {
		rows, err := s.page(ctx, after)
		if err != nil {
			return wrote, err
		}
		var lines []string
		for _, one := range rows {
			after = one.place
			name := fmt.Sprint(one.Kind, one.Number)
			if one.Xid >= next.Xid {
				kept[name] = true
			}
			if s.sent[name] {
				continue
			}
			data, err := json.Marshal(one.event())
			if err != nil {
				return wrote, fmt.Errorf("encode an event: %w", err)
			}
			id := next.mark
			if one.Xid < next.Xid {
				id = mark{Xid: one.Xid, Revision: s.at.Revision, At: s.at.At}
			}
			lines = append(lines, fmt.Sprintf(eventsFormat, id, one.Kind, data))
		}
		if len(lines) > 0 {
			if err := write(lines...); err != nil {
				return wrote, err
			}
			wrote = true
		}
		if len(rows) < eventsPage {
			s.at, s.sent = next.mark, kept
			return wrote, nil
		}
	}
}

// page reads events of transactions that are not older than the mark, in the order of the transactions.
func (s *stream) page(ctx context.Context, after place) ([]eventRow, error) {
	ctx, cancel := context.WithTimeout(ctx, s.api.config.Timeout)
	defer cancel()
	select {
	case s.api.streams.reading <- struct{}{}:
		defer func() { <-s.api.streams.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	found, err := run(ctx, s.api, s.caller, pgx.TxOptions{AccessMode: pgx.ReadOnly}, s.caller.Tenant != "", asked{},
		func(c call) (*[]eventRow, error) {
			rows, err := c.db.Query(ctx, s.api.answers.schema.SQL(eventsSQL), s.at.Xid, s.at.Revision, s.at.At,
				after.Xid, after.Kind, after.Number, eventsPage)
			if err != nil {
				return nil, fmt.Errorf("read events: %w", err)
			}
			events, err := pgx.CollectRows(rows, pgx.RowToStructByName[eventRow])
			if err != nil {
				return nil, fmt.Errorf("read events: %w", err)
			}
			return &events, nil
		})
	if err != nil {
		return nil, err
	}
	return *found, nil
}

// place is where a page of events ends.
type place struct {
	Xid    int64
	Kind   string
	Number int64
}
