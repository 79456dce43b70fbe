package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

const (
	maxStreams   = 100              // of one API at once
	eventsPause  = time.Second      // between two reads of a stream
	eventsPage   = 1000             // lines of the history in one read
	eventsPing   = 15 * time.Second // how often a stream without events says that it lives
	eventsWrite  = 10 * time.Second // how long a client may take to read
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
	if a.streams.Add(1) > maxStreams {
		a.streams.Add(-1)
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("too many streams are open"),
			http.Header{"Retry-After": {"5"}})
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer a.streams.Add(-1)
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		if err := s.send(ctx, w); err != nil && ctx.Err() == nil {
			a.config.Logger.Info("a stream of events ended", "request", requestID(ctx), "error", err)
		}
	}}, nil
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
	if from != nil {
		s.at = *from
		return s, nil
	}
	at, err := a.marks.now(ctx, a.config.Pool)
	s.at = at
	return s, err
}

// send writes events until ctx ends or the client is gone. Between two reads it holds no connection.
func (s *stream) send(ctx context.Context, w http.ResponseWriter) error {
	control := http.NewResponseController(w)
	pause, lastWrite := time.NewTicker(eventsPause), time.Time{}
	defer pause.Stop()
	for began := time.Now(); time.Since(began) < streamLife; {
		lines, err := s.read(ctx)
		if err != nil {
			return err
		}
		if len(lines) > 0 || time.Since(lastWrite) >= eventsPing {
			if err := control.SetWriteDeadline(time.Now().Add(eventsWrite)); err != nil {
				return fmt.Errorf("limit the time of a write: %w", err)
			}
			if len(lines) == 0 {
				lines = []string{": the stream lives\n\n"}
			}
			for _, line := range lines {
				if _, err := io.WriteString(w, line); err != nil {
					return fmt.Errorf("write an event: %w", err)
				}
			}
			if err := control.Flush(); err != nil {
				return fmt.Errorf("send events: %w", err)
			}
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

// read returns the new events, as lines of the stream. The id of each is the mark before this read, because a client
// that has only some of them must get the others again. The last one has the new mark.
func (s *stream) read(ctx context.Context) (lines []string, err error) {
	next, err := s.api.marks.now(ctx, s.api.config.Pool) // before the read, so that nothing falls in between
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	var after place
	for {
		rows, err := s.page(ctx, after)
		if err != nil {
			return nil, err
		}
		for i, one := range rows {
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
				return nil, fmt.Errorf("encode an event: %w", err)
			}
			id := s.at
			if len(rows) < eventsPage && i == len(rows)-1 {
				id = next
			}
			lines = append(lines, fmt.Sprintf(eventsFormat, id, one.Kind, data))
		}
		if len(rows) < eventsPage {
			s.at, s.sent = next, kept
			return lines, nil
		}
	}
}

// page reads events of transactions that are not older than the mark, in the order of the transactions.
func (s *stream) page(ctx context.Context, after place) ([]eventRow, error) {
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
