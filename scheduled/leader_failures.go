package scheduled

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// failureMessage is a message to the node whose hook is to be called.
type failureMessage struct {
	Node int64
	Dead Dead
}

const (
	tellSQL = `SELECT pg_notify($1::text, one.told) FROM unnest($2::text[]) AS one (told)
		WHERE pg_notification_queue_usage() < 0.5`

	maxMessageFailures = 7999 // Postgres's limit for a notification, in bytes
	toldError          = 2000 // how many bytes of an error the message has; JSON may write one byte as six
)

// notifyFailures has OnDead or OnLost called for tasks and claims that the leader has recorded, after the commit. It
// tells one node, so that the hook is called once (see recipient). If Postgres's notification queue is half full, or
// the connection is broken, the call is left out. The table has the task in any case.
func (l *leader) notifyFailures(ctx context.Context, dead ...Dead) {
	var elsewhere []string
	for _, one := range dead {
		l.metrics.of(one.Type).died(one.Status)
		node := l.recipient(one.Type)
		if node == l.session.number {
			l.dead.tell(one)
			continue
		}
		if len(one.Error) > toldError {
			one.Error = strings.ToValidUTF8(one.Error[:toldError], "") + "…"
		}
		text, err := json.Marshal(failureMessage{node, one})
		if err != nil || len(text) > maxMessageFailures { // an id may be too long by itself, once it is written as JSON
			l.dead.leaveOut(one)
			continue
		}
		elsewhere = append(elsewhere, string(text))
	}
	if len(elsewhere) == 0 {
		return
	}
	sent := time.Now()
	_, err := l.session.conn.Exec(ctx, tellSQL, deadChannel(l.statements), elsewhere)
	if l.session.heard(sent, err); err != nil {
		l.log.Warn("OnDead and OnLost are not called on other nodes", "tasks", len(elsewhere), "error", err)
	}
}

// recipient is the node that is told of a type's dead tasks and lost claims. It is this node, or the first node
// that has the type and a hook. If no node has both, it is this node, because the hook of another service is
// better than none.
func (l *leader) recipient(kind string) int64 {
	if l.config.Handlers.Variant(kind) != nil && (l.config.OnDead != nil || l.config.OnLost != nil) {
		return l.session.number
	}
	for _, node := range l.workingNodes() {
		if node.Hears && slices.Contains(node.Types, kind) {
			return node.Number
		}
	}
	return l.session.number
}

func deadChannel(s taskdb.Queries) string { return s.Schema.String() + ".dead" }

// heard calls the hook for a message of the leader, if the message is for this node.
func (u *failureNotifier) heard(node int64, text string) {
	var message failureMessage
	if err := json.Unmarshal([]byte(text), &message); err == nil && message.Node == node {
		u.tell(message.Dead)
	}
}
