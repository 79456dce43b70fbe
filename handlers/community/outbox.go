package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

const outboxSQL = `
INSERT INTO community.outbox (effect_key, email, subject, body, html)
	VALUES (@effect_key, @email, @subject, @body, @html)
ON CONFLICT (effect_key) DO NOTHING`

// Outbox is the variant SEND_EMAIL for programs without an SMTP server, such as tests. Its e-mails become rows of
// community.outbox.
func Outbox(options ...handlers.Option) handlers.Part {
	keep := func(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.SendEmail]) error {
		_, err := tx.Exec(ctx, outboxSQL, pgx.NamedArgs{
			"effect_key": t.IdempotencyKey(),
			"email":      t.Payload.Email,
			"subject":    t.Payload.Subject,
			"body":       t.Payload.Body,
			"html":       t.Payload.HTML,
		})
		if err != nil {
			return fmt.Errorf("put e-mail into the outbox: %w", err)
		}
		return nil
	}
	return handlers.HandleTx(keep, options...)
}
