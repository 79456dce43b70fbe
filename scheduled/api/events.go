package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

const (
	streamReads  = 3                // of all streams at once, one of a caller, so that calls find connections
	eventsPause  = time.Second      // between two reads of a stream
	eventsPage   = 5000             // lines of the history in one read
	eventsSpan   = 1 << 20          // transactions in one read at most; fewer if their lines do not fit
	maxEventID   = 2048             // bytes
	eventsBytes  = 1 << 20          // of these lines
	eventsBack   = 100000           // changes, and outcomes of attempts, that a stream may go back
	eventsPing   = 15 * time.Second // how often a stream without events says that it lives
	eventsWrite  = 10 * time.Second // how long a client may take to read an event
	streamLife   = 15 * time.Minute // then the client comes back, and shows its key again
	eventsPath   = "/v1/events"
	eventsFormat = "id: %s\nevent: %s\ndata: %s\n\n"
	eventsAlive  = "id: %s\n: the stream lives\n\n" // an id without an event, so that a client comes back from there
)

// Event is a line of the history of some task.
type Event struct {
	Kind      string           `json:"kind" enum:"change,execution"`
	Change    *Change          `json:"change,omitempty"`
	Execution *store.Execution `json:"execution,omitempty"`
}

type eventsInput struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"2048"`
}

func (a *API) registerEvents() {
	event := a.huma.OpenAPI().Components.Schemas.Schema(eventType, true, "Event")
	register(a, keys.Read, huma.Operation{
		OperationID: opEvents, Method: http.MethodGet, Path: eventsPath, Summary: "Follow what happens to the tasks",
		Description: "A stream of server-sent events: each edit, and the outcome of each attempt. With the header " +
			"Last-Event-ID it goes on after that event, and skips and repeats none. It goes back by 100,000 changes " +
			"and 100,000 attempts at most. The order is roughly that of the commits, so two changes of a task may " +
			"come in the wrong order, and their revisions tell the right one. What a transaction wrote comes when it " +
			"has committed, and no other event waits for it. The stream ends " +
			"after 15 minutes, and then the client connects again, as every client of server-sent events does. A key " +
			"of a tenant gets no events of a task that is deleted, because then Postgres does not know whose it was.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The data of each event is a JSON object.",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: event}},
		}},
	}, a.followEvents)
}

func (a *API) followEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	s, err := a.newStream(ctx, callerOf(ctx), in.LastEventID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		if err := s.follow(ctx, w); err != nil && ctx.Err() == nil {
			a.config.Logger.Info("a stream of events ended", "request", requestID(ctx), "error", err)
		}
	}}, nil
}

// stream is one client that follows events.
type stream struct {
	api    *API
	caller Caller
	at     cursor
	now    cursor    // of when the stream began, until its first read
	lines  int       // of the next page
	span   int64     // transactions of the next page
	last   time.Time // when the stream asked whether its caller is still known
}

// errTooFarBack refuses a Last-Event-ID whose events would be read again and again, page by page.
var errTooFarBack = refusal(CodeEventTooOld, fmt.Sprintf("Last-Event-ID is more than %d events old; "+
	"read the tasks, and then follow the events without it", eventsBack))

// backSQL counts what a page of events reads.
const backSQL = `
SELECT greatest((SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_task_changes AS c WHERE c.tx >= $1 LIMIT $2::bigint + 1) AS changes),
    (SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_task_executions AS e WHERE e.tx >= $1 LIMIT $2::bigint + 1) AS attempts))`

func (a *API) newStream(ctx context.Context, caller Caller, lastEventID string) (*stream, error) {
	s := &stream{api: a, caller: caller, lines: eventsPage, span: eventsSpan}
	now, err := a.events.now(ctx)
	if err != nil {
		return nil, err
	}
	if s.at, s.now = now, now; lastEventID == "" {
		return s, nil
	}
	if s.at, err = parseCursor(lastEventID); err != nil {
		return nil, err
	}
	if s.at.head().Tx > now.head().Tx { // of another server, such as one that was restored from a dump
		return nil, errOtherStream
	}
	back, err := pg.QueryOne[int](ctx, a.config.Pool, "count the events", a.answers.schema.SQL(backSQL), s.at.head().Tx,
		eventsBack)
	if err == nil && back > eventsBack {
		err = errTooFarBack
	}
	return s, err
}

// follow writes events until ctx ends, the client is gone, or the client has to show its key again. Between two reads
// it holds no connection.
func (s *stream) follow(ctx context.Context, w http.ResponseWriter) error {
	to := eventWriter{w, http.NewResponseController(w)}
	pause, lastWrite := time.NewTicker(eventsPause), time.Time{}
	defer pause.Stop()
	for began := time.Now(); time.Since(began) < streamLife; {
		if err := s.askAgain(ctx); err != nil {
			return err
		}
		wrote, err := s.send(ctx, to)
		if err == nil && !wrote && time.Since(lastWrite) >= eventsPing {
			wrote, err = true, errors.Join(to.write(fmt.Sprintf(eventsAlive, s.at)), to.flush())
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

// askAgain returns an error if the caller is no longer known. It asks once in askPause.
func (s *stream) askAgain(ctx context.Context) error {
	if time.Since(s.last) < askPause {
		return nil
	}
	s.last = time.Now()
	return s.api.askAgain(ctx)
}

// eventWriter writes to a client that may be slow.
type eventWriter struct {
	to      io.Writer
	control *http.ResponseController
}

func (w eventWriter) write(text string) error {
	if err := w.control.SetWriteDeadline(time.Now().Add(eventsWrite)); err != nil {
		return fmt.Errorf("limit the time of a write: %w", err)
	}
	if _, err := io.WriteString(w.to, text); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

func (w eventWriter) flush() error {
	if err := w.control.Flush(); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	return nil
}

// send writes the new events, page by page. A page that does not hold a span of transactions makes the next spans
// shorter, because Postgres sorts the lines of a span for each page of it. Large events make the pages smaller.
//
// The first read goes by the cursor of when the stream began. The shared one may be older, and then transactions of
// which the client has lines from another node would not have ended for it.
func (s *stream) send(ctx context.Context, to eventWriter) (wrote bool, err error) {
	now := s.now
	if s.now = nil; now == nil {
		if now, err = s.api.events.lately(ctx); err != nil {
			return false, err
		}
	}
	for {
		span, found := s.at.next(now, s.span)
		if !found {
			return wrote, nil
		}
		page, err := s.api.events.page(ctx, s.caller, s.at, span, now, s.lines)
		if err != nil {
			return wrote, err
		}
		for _, one := range page.events {
			if err := s.askAgain(ctx); err != nil {
				return wrote, err
			}
			wrote = true
			if err := to.write(fmt.Sprintf(eventsFormat, one.id, one.kind, one.data)); err != nil {
				return wrote, err
			}
		}
		if wrote {
			if err := to.flush(); err != nil {
				return wrote, err
			}
		}
		s.at = page.next
		s.lines, s.span = min(2*s.lines, eventsPage), min(2*s.span, eventsSpan)
		if page.full {
			s.lines, s.span = max(len(page.events), 1), max(span.below-span.from.Tx, 2)/2
		}
	}
}
