package community

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

const sendMessageSQL = `
WITH people AS (
    SELECT f.id AS sender, t.id AS recipient FROM community.members AS f, community.members AS t
        WHERE f.id = @from AND t.id = @to
), sent AS (
    INSERT INTO community.direct_messages (effect_key, sender, recipient, text)
    SELECT @effect_key, sender, recipient, @text FROM people
    ON CONFLICT (effect_key) DO NOTHING
)
SELECT EXISTS (SELECT 1 FROM people)`

// sendMessage runs SEND_DIRECT_MESSAGE.
func (a *App) sendMessage(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.SendDirectMessage]) error {
	if err := checkText("payload field text", t.Payload.Text); err != nil {
		return handlers.Permanent(fmt.Errorf("send direct message: %w", err)) // no retry would mend the payload
	}
	if t.Payload.From == "" || t.Payload.To == "" {
		return handlers.Permanent(
			errors.New("send direct message: payload fields from and to must be the ids of members"),
		)
	}
	var there bool
	err := tx.QueryRow(ctx, sendMessageSQL, pgx.NamedArgs{
		"from": t.Payload.From, "to": t.Payload.To, "text": t.Payload.Text, "effect_key": t.IdempotencyKey(),
	}).Scan(&there)
	if err != nil {
		return fmt.Errorf("send direct message: %w", err)
	}
	if !there {
		t.Note("sender or recipient is gone: nothing was sent")
	}
	return nil
}
