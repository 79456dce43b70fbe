package leader

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/scheduled/internal/session"
)

const worksSQL = `UPDATE tasktable.nodes SET queues = $2::text::jsonb, types = $3, may_lead = $4 WHERE number = $1`

// heed writes to the nodes table which queues and types the node works, and whether it may lead. While the node is
// quiet, it works none and may not lead. If it is quiet and leads, heed also lets another node lead.
func (l *Leader) heed(ctx context.Context, on bool) error {
	queues, types, mayLead := l.session.Does(on)
	limited, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	_, err := l.config.Pool.Exec(limited, l.statements.Schema.SQL(worksSQL), l.session.Number, queues, types, mayLead)
	if err != nil {
		return fmt.Errorf("write what the node does: %w", err)
	}
	if on {
		if err := l.resign(ctx); err != nil {
			return err
		}
		l.log.Info("node is quiet: it starts nothing new", "running", l.config.InHand())
	} else {
		l.log.Info("node is no longer quiet")
	}
	l.session.Quiet = on
	return nil
}
