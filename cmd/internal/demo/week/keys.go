package week

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

const dateKeySQL = `
UPDATE tasktable.api_keys SET created_at = $2, last_used_at = $3,
    revoked_at = CASE WHEN revoked_at IS NOT NULL THEN $3::timestamptz END
WHERE name = $1`

// writeKeys makes keys of the HTTP API. Nobody has their secrets. The random secrets are all that a seed does not
// decide.
func (w *week) writeKeys(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	keeper := keys.New(keys.Config{Schema: schema})
	for _, one := range []struct {
		key     keys.NewKey
		used    time.Time
		revoked bool
	}{
		{keys.NewKey{Name: partnerKey, Scopes: []keys.Scope{keys.Read, keys.Schedule}, Rate: 50, By: ops},
			w.now.Add(-90 * time.Second), false},
		{keys.NewKey{Name: "status-page", Scopes: []keys.Scope{keys.Read}, By: ops},
			w.now.Add(-20 * time.Second), false},
		{keys.NewKey{Name: "former-agency", Scopes: []keys.Scope{keys.Read, keys.Operate}, By: ops},
			w.now.Add(-4 * 24 * time.Hour), true},
	} {
		if _, _, err := keeper.Create(ctx, tx, one.key); err != nil {
			return err
		}
		if one.revoked {
			if _, err := keeper.Revoke(ctx, tx, one.key.Name, ops); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, schema.SQL(dateKeySQL), one.key.Name, w.from, one.used); err != nil {
			return fmt.Errorf("date key %s: %w", one.key.Name, err)
		}
	}
	return nil
}
