package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store/form"
)

// eventReader reads the history for all streams of the process. Streams at the same place share a read. All streams
// that have read everything are at the same place. Streams of a tenant share their reads only with each other.
type eventReader struct {
	api   *API
	nows  shared[cursor]
	pages shared[eventPage]
}

// sentEvent is an event as a client gets it.
type sentEvent struct{ id, kind, data string }

// eventPage is the result of one read.
type eventPage struct {
	events []sentEvent
	next   cursor // of a client that has them all
	full   bool   // there may be more of the span
}

const nowSQL = `
SELECT ARRAY(SELECT open.tx FROM txid_snapshot_xip(s.now) AS open (tx) ORDER BY open.tx LIMIT $1 + 1),
    txid_snapshot_xmax(s.now)
FROM (SELECT txid_current_snapshot() AS now) AS s`

// now is the cursor of a client that has all lines of the transactions that have ended.
func (r *eventReader) now(ctx context.Context) (cursor, error) {
	var open []int64
	var next int64
	ctx, cancel := context.WithTimeout(ctx, r.api.config.Timeout)
	defer cancel()
	if err := r.api.config.Pool.QueryRow(ctx, nowSQL, maxOpen).Scan(&open, &next); err != nil {
		return nil, fmt.Errorf("ask how far the history is: %w", err)
	}
	return cursorOf(open, next), nil
}

// lately is now, at most a second old.
func (r *eventReader) lately(ctx context.Context) (cursor, error) {
	return r.nows.get(ctx, "", eventsPause, func(ctx context.Context) (cursor, error) { return r.now(ctx) })
}

// page reads a span for a client, at most `most` lines and about eventsBytes.
func (r *eventReader) page(
	ctx context.Context, caller Caller, at cursor, s span, now cursor, most int,
) (eventPage, error) {
	key := fmt.Sprint(caller.Tenant, "/", at, "/", s, "/", now, "/", most)
	return r.pages.get(ctx, key, eventsPause, func(ctx context.Context) (page eventPage, err error) {
		ctx, cancel := context.WithTimeout(ctx, r.api.config.Timeout)
		defer cancel()
		give, err := r.api.shares.streamReads.Take(ctx, caller.Name, 1, r.api.config.Timeout)
		if err != nil {
			return page, fmt.Errorf("wait for other streams: %w", err)
		}
		defer give()
		var more bool
		rows, shortened, err := fitting(most, func(limit int) (rows []eventRow, err error) {
			rows, more, err = r.rows(ctx, caller.Tenant, s, now, limit)
			return rows, err
		})
		if err != nil {
			return page, err
		}
		page.next, page.full = at.end(s, now), shortened || more
		for _, one := range rows {
			data, err := form.Encode(one.event(), "")
			if err != nil {
				return page, fmt.Errorf("encode an event: %w", err)
			}
			behind := at.after(s, one.place, now)
			page.events = append(page.events, sentEvent{behind.String(), one.Kind, string(data)})
			if page.full {
				page.next = behind
			}
		}
		return page, nil
	})
}

// rows reads lines of a span, and reports whether there may be more. The rest of a large transaction is read by its
// numbers, because otherwise Postgres would sort all of the transaction for each page. If nearly all of the next
// numbers are those of other transactions, this one is sorted after all.
func (r *eventReader) rows(
	ctx context.Context, tenant string, s span, now cursor, limit int,
) (rows []eventRow, more bool, err error) {
	if s.rest() {
		numbers := 4 * limit
		rows, err = r.query(ctx, tenant, restSQL, s.from.Tx, s.from.Number, numbers, limit)
		if err != nil || len(rows) > numbers/100 {
			return rows, true, err
		}
	}
	rows, err = r.query(ctx, tenant, eventsSQL, s.from.Tx, s.below, s.from.Number, now.open(), limit)
	return rows, len(rows) == limit, err
}

func (r *eventReader) query(ctx context.Context, tenant, statement string, args ...any) ([]eventRow, error) {
	reads := pgx.TxOptions{AccessMode: pgx.ReadOnly}
	found, err := run(ctx, r.api, Caller{Tenant: tenant}, reads, tenant != "", asked{},
		func(c call) (*[]eventRow, error) {
			db := bounded{c.db, eventsBytes}
			events, err := pg.CollectRows[eventRow](ctx, db, "read events", c.schema.SQL(statement), args...)
			return &events, err
		})
	return deref(found), err
}

// shared keeps the values that were read lately, by key. While one call reads a value, the others wait for it.
type shared[V any] struct {
	mu   sync.Mutex
	read map[string]*reading[V]
}

type reading[V any] struct {
	began time.Time
	done  chan struct{}
	value V
	err   error
}

// get returns what do has read for the key within the last pause. do is not cancelled with the call that began to read.
func (s *shared[V]) get(
	ctx context.Context, key string, pause time.Duration, do func(context.Context) (V, error),
) (value V, err error) {
	one, mine := s.of(key, pause)
	if mine {
		defer close(one.done)
		one.value, one.err = do(context.WithoutCancel(ctx))
		return one.value, one.err
	}
	select {
	case <-one.done:
		return one.value, one.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// of returns the reading of a key, and whether the caller is to read.
func (s *shared[V]) of(key string, pause time.Duration) (one *reading[V], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.read {
		select {
		case <-old.done:
			if old.err != nil || time.Since(old.began) >= pause {
				delete(s.read, name)
			}
		default:
		}
	}
	if one, found := s.read[key]; found {
		return one, false
	}
	if s.read == nil {
		s.read = map[string]*reading[V]{}
	}
	one = &reading[V]{began: time.Now(), done: make(chan struct{})}
	s.read[key] = one
	return one, true
}
