package demo

import (
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// A demo in which nothing happened fails, and says what is missing.
func TestAuditFails(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := newDemo(Config{Pool: pool, Direct: pool, Out: io.Discard})
	d.run = "nothing"
	if err := d.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.audit(t.Context()); err == nil || !strings.Contains(err.Error(), "did its reminder move?") {
		t.Errorf("audit of nothing: %v", err)
	}
}
