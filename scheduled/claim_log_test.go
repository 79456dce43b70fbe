package scheduled

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// statementLog is a pgx.QueryTracer. It keeps each text that was sent.
type statementLog struct {
	mu   sync.Mutex
	sent map[string]bool
}

func (l *statementLog) add(sql string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[sql] = true
}

func (l *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.add(data.SQL)
	return ctx
}

func (l *statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *statementLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		l.add(query.SQL)
	}
	return ctx
}

func (l *statementLog) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (l *statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

var (
	setsExecuting = regexp.MustCompile(`(?s)\bSET\s+status\s*=[^,]*'EXECUTING'`)
	skipsLocked   = regexp.MustCompile(`(?s)\bFOR UPDATE\s.*SKIP LOCKED`)
)

// Each statement of a busy node that sets EXECUTING locks its rows first, and skips the rows that others have locked.
func TestEachClaimSkipsLockedRows(t *testing.T) {
	s := newBench(t)
	sent := &statementLog{sent: map[string]bool{}}
	settings := s.Pool.Config()
	settings.ConnConfig.Tracer = sent
	nodes, err := pgxpool.NewWithConfig(context.Background(), settings)
	s.OK(err)
	t.Cleanup(nodes.Close)
	s.nodes = nodes
	s.node(nil)
	soon := time.Now().Add(time.Second)
	s.Add("locked", func(task *store.Task) { task.At = soon })
	unlock := enginetest.Lock(t, s.Pool, "locked")
	s.Add("plain", func(task *store.Task) { task.At = soon })
	s.Add("expires", func(task *store.Task) { task.At, task.Expiration = soon.Add(-time.Hour), time.Minute })
	s.Begins("plain").End <- nil
	s.Is("plain", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("expires", store.StatusExpired, taskdb.OutcomeExpired)
	unlock()
	s.Begins("locked").End <- nil
	s.Is("locked", store.StatusCompleted, taskdb.OutcomeCompleted)
	sent.mu.Lock()
	defer sent.mu.Unlock()
	claims := 0
	for sql := range sent.sent {
		if setsExecuting.MatchString(sql) {
			claims++
			if !skipsLocked.MatchString(sql) {
				t.Errorf("this statement sets EXECUTING without FOR UPDATE SKIP LOCKED: %s", sql)
			}
		}
	}
	if claims != 1 || len(sent.sent) < 10 {
		t.Errorf("of %d statements %d set EXECUTING, want one", len(sent.sent), claims)
	}
}
