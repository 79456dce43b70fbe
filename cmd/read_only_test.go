package cmd

import (
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// Each command that writes says that it met a standby, and not only which statement Postgres refused.
func TestCommandsOnAStandby(t *testing.T) {
	t.Parallel()
	const readOnly = "&default_transaction_read_only=on"
	empty := []string{"DATABASE_URL=" + storetest.EmptyURL(t) + readOnly}
	migrated := []string{"DATABASE_URL=" + storetest.URL(t) + readOnly}
	for name, test := range map[string]struct{ variables, args []string }{
		"migrate":      {empty, []string{"migrate"}},
		"migrate down": {migrated, []string{"migrate", "down", "--yes"}},
		"schedule":     {migrated, []string{"tasks", "schedule", "--type=LOG", "--id=one"}},
		"cancel":       {migrated, []string{"tasks", "cancel", "one"}},
		"pause":        {migrated, []string{"queues", "pause", "default"}},
		"create a key": {migrated, []string{"keys", "create", "me", "--scope=read"}},
		"revoke a key": {migrated, []string{"keys", "revoke", "me"}},
		"recipient":    {migrated, []string{"notices", "recipients", "set", "ops", "--email=ops@example.org"}},
		"notices":      {migrated, []string{"notices", "remove", "dead"}},
		"reconcile": {migrated, []string{"reconcile", "--type=LOG", "--apply", "--query=" +
			written(t, "q.sql", "SELECT 'a' AS id, now() + interval '1 hour' AS scheduled_at")}},
		"demo":  {migrated, []string{"demo"}},
		"serve": {migrated, []string{"serve", "--http-addr=127.0.0.1:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, test.variables, test.args...).want(t, exitFailed, store.ErrReadOnly.Error())
		})
	}
	run(t, migrated, "migrate").want(t, exitOK) // there is nothing to write
}
