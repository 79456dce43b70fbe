package api

import (
	"context"
	"encoding/json"
	"errors"
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
	streamReads  = 3                // of all streams at once, one of a caller, so that calls find connections
	eventsPause  = time.Second      // between two reads of a stream
	eventsPage   = 1000             // lines of the history in one read
	eventsBytes  = 1 << 20          // of these lines
	eventsBack   = 100000           // changes, and outcomes of attempts, that a stream may go back
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
		OperationID: opEvents, Method: http.MethodGet, Path: eventsPath, Tags: []string{"tasks"},
		Summary: "Follow what happens to the tasks",
		Description: "A stream of server-sent events: each edit, and the outcome of each attempt. With the header " +
			"Last-Event-ID it goes on after that event, and skips none. It goes back by 100,000 changes and 100,000 " +
			"attempts at most. It may repeat some events, so compare the revision of a change and the fence of an " +
			"execution. The order is roughly that of the commits. The stream ends " +
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
	at     mark
	// sent has the events that the client has, and that the next read finds again, because their transactions are not
	// older than the mark.
	sent map[string]bool
	size int       // lines of the next page
	last time.Time // when the stream asked whether its caller is still known
}

// errTooFarBack refuses a Last-Event-ID whose events would be read again and again, page by page.
var errTooFarBack = refusal(CodeEventTooOld, fmt.Sprintf("Last-Event-ID is more than %d events old; "+
	"read the tasks, and then follow the events without it", eventsBack))

// backSQL counts what a page of events reads.
const backSQL = `
SELECT greatest((SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_task_changes AS c WHERE c.revision >= $1 LIMIT $3::bigint + 1) AS changes),
    (SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_task_executions AS e WHERE e.finished_at >= $2 LIMIT $3::bigint + 1) AS attempts))`

func (a *API) newStream(ctx context.Context, caller Caller, from *mark) (*stream, error) {
	s := &stream{api: a, caller: caller, sent: map[string]bool{}, size: eventsPage}
	now, _, err := a.marks.now(ctx, a.config.Pool)
	if err != nil {
		return nil, err
	}
	s.at = now.mark
	if from != nil {
		if from.Xid > now.xmax { // of another server, such as one that was restored from a dump
			return nil, errOtherStream
		}
		var back int
		sql := a.answers.schema.SQL(backSQL)
		err := a.config.Pool.QueryRow(ctx, sql, from.Revision, from.At, eventsBack).Scan(&back)
		if err != nil {
			return nil, fmt.Errorf("count the events: %w", err)
		}
		if back > eventsBack {
			return nil, errTooFarBack
		}
		s.at = *from
	}
	return s, nil
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
			wrote, err = true, errors.Join(to.write(": the stream lives\n\n"), to.flush())
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

// send writes the new events, page by page in the order of their transactions, so that a client that breaks off has a
// part of them. The id of an event says that the client has all events of the transactions below its own. This can be
// said of transactions that had ended before the read began.
func (s *stream) send(ctx context.Context, to eventWriter) (wrote bool, err error) {
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
		rows, more, err := s.page(ctx, after)
		if err != nil {
			return wrote, err
		}
		for _, one := range rows {
			if err := s.askAgain(ctx); err != nil {
				return wrote, err
			}
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
			wrote = true
			if err := to.write(fmt.Sprintf(eventsFormat, id, one.Kind, data)); err != nil {
				return wrote, err
			}
		}
		if wrote {
			if err := to.flush(); err != nil {
				return wrote, err
			}
		}
		if !more {
			s.at, s.sent = next.mark, kept
			return wrote, nil
		}
	}
}

// page reads events of transactions that are not older than the mark, in the order of the transactions. Large events
// make a page smaller, and the next one larger again.
func (s *stream) page(ctx context.Context, after place) (rows []eventRow, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.api.config.Timeout)
	defer cancel()
	give, err := s.api.shares.streamReads.Take(ctx, s.caller.Name, 1, s.api.config.Timeout)
	if err != nil {
		return nil, false, fmt.Errorf("wait for other streams: %w", err)
	}
	defer give()
	asked := s.size
	rows, shortened, err := fitting(asked, func(limit int) ([]eventRow, error) {
		asked = limit
		return s.rows(ctx, after, limit)
	})
	if s.size = min(2*s.size, eventsPage); shortened {
		s.size = len(rows)
	}
	return rows, shortened || len(rows) == asked, err
}

func (s *stream) rows(ctx context.Context, after place, limit int) ([]eventRow, error) {
	found, err := run(ctx, s.api, s.caller, pgx.TxOptions{AccessMode: pgx.ReadOnly}, s.caller.Tenant != "", asked{},
		func(c call) (*[]eventRow, error) {
			rows, err := bounded{c.db, eventsBytes}.Query(ctx, s.api.answers.schema.SQL(eventsSQL), s.at.Xid,
				s.at.Revision, s.at.At, after.Xid, after.Kind, after.Number, limit)
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
