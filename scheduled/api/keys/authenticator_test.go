package keys_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store/storetest"
)

// counting counts the queries of an Authenticator.
type counting struct {
	db interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
	queries []string
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.queries = append(c.queries, strings.Fields(sql)[0])
	return c.db.Query(ctx, sql, args...)
}

// The use of a key is written once a minute, by whichever node comes first.
func TestTheUseOfAKeyIsWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	secret, _, err := all.Create(ctx, pool, reader("a"))
	check(t, err)
	used := func() *time.Time {
		t.Helper()
		list, err := all.List(ctx, pool, false)
		check(t, err)
		return list[0].LastUsedAt
	}
	nodes := []*counting{{db: pool}, {db: pool}}
	for _, node := range nodes {
		a := keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: all, DB: node})
		for range 3 {
			key, err := a.Authenticate(ctx, secret)
			if err != nil || key.Name != "a" {
				t.Errorf("got %+v, %v", key, err)
			}
		}
	}
	first := used()
	if first == nil {
		t.Fatal("the use is not written")
	}
	same(t, strings.Join(nodes[0].queries, " "), "SELECT UPDATE")
	same(t, strings.Join(nodes[1].queries, " "), "SELECT")
	apply(ctx, t, pool, `UPDATE tasktable.api_keys SET last_used_at = last_used_at - interval '61 seconds'`)
	_, err = keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: all, DB: pool}).Authenticate(ctx, secret)
	check(t, err)
	if again := used(); !again.After(*first) {
		t.Errorf("used at %s, then at %s", first, again)
	}
}

// Who has locked the row holds up no call, and a use that cannot be written is no reason to refuse the key.
func TestTheUseOfAKeyIsNotWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	secret, _, err := all.Create(ctx, pool, reader("a"))
	check(t, err)
	tx, err := pool.Begin(ctx)
	check(t, err)
	_, err = all.Revoke(ctx, tx, "a", "")
	check(t, err)
	_, err = keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: all, DB: pool}).Authenticate(ctx, secret)
	check(t, err) // it is not revoked yet
	check(t, tx.Rollback(ctx))

	apply(ctx, t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.api_keys EXECUTE FUNCTION refuse()`)
	var logged bytes.Buffer
	a := keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: all, DB: pool,
		Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	key, err := a.Authenticate(ctx, secret)
	if err != nil || key.LastUsedAt != nil {
		t.Errorf("got %+v, %v", key, err)
	}
	if line := logged.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "key=a") ||
		strings.Contains(line, secret[3:]) {
		t.Errorf("logged %s", line)
	}
}
