package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

func (p *program) keysCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Creates, lists and revokes keys of the HTTP API",
		Example: `  tasktable keys create ci --scope schedule --expires-in 90d
  tasktable keys list
  tasktable keys revoke ci`,
	}, p.keysCreateCommand(), p.keysListCommand(), p.keysRevokeCommand())
}

// keysOf are the keys in the schema of the command.
func (c *client) keysOf(tenantRole string) *keys.Keys {
	return keys.New(keys.Config{Schema: c.database.inSchema(), TenantRole: tenantRole})
}

const keysListHelp = `Lists keys of the HTTP API, sorted by name. Nobody can show a key again, so PREFIX has its first
characters. LAST USED is written at most once a minute. TENANT is - for a key that has the tasks of all tenants. TYPES
and QUEUES list what the key may change. - stands for all, but with a tenant for all types except EXEC, RUN_SQL and
SEND_EMAIL.

With --output json it prints an array of the keys.`

// keysList is the command keys list.
type keysList struct {
	*client
	all bool
}

func (p *program) keysListCommand() *cobra.Command {
	l := &keysList{client: p.client()}
	opts := []options.Option{{Flag: "all", Set: options.Bool(&l.all), Usage: "also keys that were revoked"}}
	return p.Bind(&cobra.Command{
		Use:   "list",
		Short: "Lists keys: what each may do, until when, and when it was used last",
		Long:  keysListHelp,
		Example: `  tasktable keys list
  tasktable keys list --all --output json | jq -r '.[] | select(.last_used_at == null) | .name'   # never used`,
	}, append(opts, l.options()...), l.opened(l.run))
}

func (l *keysList) run(ctx context.Context) error {
	found, err := l.keysOf("").List(ctx, l.pool, l.all)
	if err != nil {
		return err
	}
	t := term.NewTable("NAME", "PREFIX", "SCOPES", "SERVICE", "TENANT", "TYPES", "QUEUES", "RATE", "CREATED AT",
		"EXPIRES AT", "LAST USED AT", "REVOKED AT", "REVOKED BY")
	for _, key := range found {
		expires := term.CellOf(l.When(key.ExpiresAt))
		if key.ExpiresAt != nil && !key.ExpiresAt.After(l.Now) {
			expires.Color = term.Red
		}
		t.Add(key.Name, key.Prefix, term.Join(key.Scopes, ","), key.Service, key.TenantID,
			strings.Join(key.Types, ","), strings.Join(key.Queues, ","), rateText(key.Rate), l.When(&key.CreatedAt),
			expires, l.When(key.LastUsedAt), l.When(key.RevokedAt), key.RevokedBy)
	}
	if !l.all {
		t.Drop("REVOKED AT", "REVOKED BY")
	}
	return l.List(found, t, "There are no keys.")
}

func rateText(rate int) term.Cell {
	if rate == 0 {
		return term.Cell{Number: true}
	}
	return term.CellOf(rate)
}

const keysRevokeHelp = `Revokes a key of the HTTP API. Nodes may accept it for 5 more seconds. Nothing can make it valid
again, but its name is free for another key. If no key has the name, or only revoked keys have it, the exit code is 1.`

func (p *program) keysRevokeCommand() *cobra.Command {
	c := p.client()
	var name string
	return p.BindArguments(&cobra.Command{
		Use:     "revoke NAME",
		Short:   "Revokes a key",
		Long:    keysRevokeHelp,
		Example: "  tasktable keys revoke ci\n  tasktable keys revoke ci --by ann --output json",
	}, c.options(), options.One("NAME", &name, c.keyNames), c.opened(func(ctx context.Context) error {
		key, err := c.keysOf("").Revoke(ctx, c.pool, name, c.author())
		if err != nil {
			return err
		}
		t := term.NewTable("NAME", "PREFIX", "OUTCOME")
		t.Add(key.Name, key.Prefix, "revoked")
		return c.One(key, t)
	}))
}

// keyNames completes the names of keys that are not revoked.
func (c *client) keyNames(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, _ store.Config) ([]string, error) {
		found, err := c.keysOf("").List(ctx, db, false)
		return textsOf(found, func(key keys.Key) string { return key.Name }), err
	})
}
