package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

const keysCreateHelp = `Creates a key of the HTTP API, and prints it. Keep it where secrets are kept, because only its
hash is stored, and nobody can show it again. A caller sends it in the header "Authorization: Bearer KEY".

NAME has 1 to 63 letters, digits or _.-. Another key may have it only if that key is revoked.

With --tenant the key has the tasks of one tenant alone: the database shows no others, and refuses to change them. This
needs the role of tenants, which the SQL of tasktable migrate roles makes. The private Postgres has it.

With --type and --queue the key schedules, edits and acts on tasks of these types and queues alone. It reads all that
its scopes and tenant allow. A type stands for its variants, too: EXEC allows EXEC:backup. A key of a tenant has EXEC,
RUN_SQL and SEND_EMAIL only if --type names them, because they act with the rights of the nodes.

With --output json it prints an object with the key, "key": "tt_…", and its fields.`

// keysCreate is the command keys create.
type keysCreate struct {
	*client
	key        keys.NewKey
	tenantRole string
}

func (p *program) keysCreateCommand() *cobra.Command {
	k := &keysCreate{client: p.client()}
	opts := []options.Option{
		{Flag: "scope", Kind: "scope", Repeatable: true, Set: options.SomeOf(&k.key.Scopes, keys.Scopes()...),
			Complete: options.Words(keys.Scopes()...).Each(),
			Usage: "what the key may do: " + term.Join(keys.Scopes(), ", ") + ", one or several separated by commas; " +
				"required"},
		{Flag: "service", Kind: "name", Set: options.Text(&k.key.Service, store.MaxIDBytes),
			Usage: "the service in whose name tasks are scheduled (default the name of the key)"},
		{Flag: "tenant", Kind: "tenant", NotEmpty: true, Set: given(options.Text(&k.key.TenantID, store.MaxIDBytes)),
			Usage: "the tenant whose tasks the key has (default all tenants)"},
		{Flag: "type", Kind: "type", Repeatable: true, NotEmpty: true,
			Set: given(namesOf(&k.key.Types, store.CheckType)),
			Usage: "a type of the tasks that the key may change, one or several separated by commas (default all, " +
				"but with --tenant none of EXEC, RUN_SQL and SEND_EMAIL)"},
		{Flag: "queue", Kind: "queue", Repeatable: true, NotEmpty: true,
			Set:   given(namesOf(&k.key.Queues, store.CheckQueue)),
			Usage: "a queue of the tasks that the key may change, one or several separated by commas (default all)"},
		{Flag: "expires-in", Kind: "duration", Set: options.Duration(&k.key.ExpiresIn, time.Second, keys.MaxExpiresIn),
			Usage: "when the key expires, such as 12h, 90d or 52w from now (default never)"},
		{Flag: "rate", Kind: "number", Set: options.Int(&k.key.Rate, 1, keys.MaxRate),
			Usage: "how many calls it may make in a second (default 1000)"},
		{Flag: "tenant-role", Variable: "TASKTABLE_TENANT_ROLE", Kind: "name", Set: options.Text(&k.tenantRole, 63),
			Usage: "the role of calls for a tenant (default the schema's name and _tenant)"},
	}
	return p.BindArguments(&cobra.Command{
		Use:   "create NAME",
		Short: "Creates a key and prints it, once",
		Long:  keysCreateHelp,
		Example: `  tasktable keys create ci --scope schedule --expires-in 90d
  tasktable keys create grafana --scope read --rate 10 --output json | jq -r .key > grafana.key
  tasktable migrate roles | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"   # once, for keys of tenants
  tasktable keys create acme --scope read,schedule --tenant acme
  tasktable keys create shop --scope schedule --type HTTP_REQUEST --queue shop`,
	}, append(opts, k.options()...), options.One("NAME", &k.key.Name, nil), k.opened(k.run, k.check))
}

// given refuses a blank value, such as that of a variable of a script that is not set. It would lift the limit.
func given(set func(string) error) func(string) error {
	return func(text string) error {
		if strings.TrimSpace(text) == "" {
			return errors.New("must not be empty; leave the option out for a key without this limit")
		}
		return set(text)
	}
}

// namesOf takes names that check accepts.
func namesOf(into *[]string, check func(string) error) func(string) error {
	return options.Each(into, func(one string) (string, error) {
		if one == "" {
			return "", errors.New("must have a name before and after each comma")
		}
		if err := check(one); err != nil {
			_, rule, _ := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
			return "", errors.New(rule)
		}
		return one, nil
	})
}

func (k *keysCreate) check() error {
	if len(k.key.Scopes) == 0 {
		return options.Usage("--scope is missing: the key must be allowed something")
	}
	k.key.By = k.author()
	return k.key.Check()
}

// createdKey is the only output that has a secret.
type createdKey struct {
	Secret string `json:"key"`
	keys.Key
}

func (k *keysCreate) run(ctx context.Context) error {
	secret, key, err := k.keysOf(k.tenantRole).Create(ctx, k.pool, k.key)
	if err != nil {
		return err
	}
	if k.JSON {
		return k.Document(createdKey{secret, key})
	}
	k.Note("This is the key %s. Keep it now, because it is not shown again:", key.Name)
	_, err = fmt.Fprintln(k.Data, secret)
	return err
}
