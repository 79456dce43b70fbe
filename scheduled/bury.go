package scheduled

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// told is a Dead on its way to the node whose hook is to be called.
type told struct {
	Node int64
	Dead Dead
}

const (
	tellSQL = `SELECT pg_notify($1::text, one.told) FROM unnest($2::text[]) AS one (told) WHERE pg_notification_queue_usage() < 0.5`

	toldMost  = 7999 // Postgres's limit, in bytes
	toldError = 2000 // how much of an error goes along; JSON may write a byte as six
)

// bury has OnDead or OnLost called for what the leader has recorded, after its commit: on a node whose service it is. Of several that is the
// first, so that each is told of once. A full notification queue, or a broken connection, leaves the call out: the table has it.
func (l *leader) bury(ctx context.Context, dead ...Dead) {
	var elsewhere []string
	for _, one := range dead {
		l.metrics.of(one.Type).died(one.Status)
		node := l.heir(one.Type)
		if node == l.session.number {
			l.dead.tell(one)
			continue
		}
		if len(one.Error) > toldError {
			one.Error = strings.ToValidUTF8(one.Error[:toldError], "") + "…"
		}
		text, err := json.Marshal(told{node, one})
		if err != nil || len(text) > toldMost { // its id alone may be that long, written as JSON
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

// heir is the node that is told of a type's dead tasks and lost claims: this one, or the first that has the type and a hook. Where nobody
// has both, it is this one: better another service's hook than none.
func (l *leader) heir(kind string) int64 {
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

func deadChannel(s statements) string { return s.schema.String() + ".dead" }

// heard calls the hook for what the leader has told, if it is for this node.
func (u *undertaker) heard(node int64, text string) {
	var message told
	if err := json.Unmarshal([]byte(text), &message); err == nil && message.Node == node {
		u.tell(message.Dead)
	}
}
