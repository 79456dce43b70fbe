package leader

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
)

const (
	tellSQL = `SELECT pg_notify($1::text, one.told) FROM unnest($2::text[]) AS one (told)
		WHERE pg_notification_queue_usage() < 0.5`

	maxMessageFailures = 7999 // Postgres's limit for a notification, in bytes
	toldError          = 2000 // how many bytes of an error the message has; JSON may write one byte as six
)

// notifyFailures has OnDead or OnLost called for tasks and claims that the leader has recorded, after the commit. It
// tells one node, so that the hook is called once (see failures.Recipient). If Postgres's notification queue is half
// full, or the connection is broken, the call is left out. The table has the task in any case.
func (l *Leader) notifyFailures(ctx context.Context, dead ...failures.Failure) {
	var elsewhere []string
	for _, one := range dead {
		l.metrics.Of(one.Type).Died(one.Status)
		node := failures.Recipient(one.Type, l.session.Number, l.workingNodes())
		if node == l.session.Number {
			l.config.Failures.Tell(one)
			continue
		}
		if len(one.Error) > toldError {
			one.Error = strings.ToValidUTF8(one.Error[:toldError], "") + "…"
		}
		text, err := json.Marshal(failures.Message{Node: node, Failure: one})
		if err != nil || len(text) > maxMessageFailures { // an id may be too long by itself, once it is written as JSON
			l.config.Failures.LeaveOut(one)
			continue
		}
		elsewhere = append(elsewhere, string(text))
	}
	if len(elsewhere) == 0 {
		return
	}
	defer l.limit().Stop()
	_, err := l.conn.Exec(ctx, tellSQL, failures.Channel(l.statements.Schema.String()), elsewhere)
	if err != nil {
		l.log.Warn("OnDead and OnLost are not called on other nodes", "tasks", len(elsewhere), "error", err)
	}
}
