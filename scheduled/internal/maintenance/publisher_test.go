package maintenance

import (
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// publishes runs the publisher of a node that has handlers of the types.
func (b *bench) publishes(service string, types []string, defaults ...store.Defaults) {
	b.T.Helper()
	p := NewPublisher(PublisherConfig{Pool: b.Pool, Statements: b.Queries, Service: service, Defaults: defaults,
		Types: types, Log: enginetest.Logger()})
	p.Run(b.T.Context()) // returns once they are published
}

func (b *bench) wantDefaults(what, want string) {
	b.T.Helper()
	const listSQL = `SELECT coalesce(string_agg(concat_ws(' ', type, max_attempts, declared_by), ', ' ORDER BY type), '')
		FROM tasktable.task_defaults`
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), listSQL).Scan(&got); err != nil || got != want {
		b.T.Errorf("%s: defaults %q, %v, want %q", what, got, err, want)
	}
}

// A node publishes the defaults of its own types. It removes those that an earlier version of its service had, and
// leaves those of other types, of other services and of people.
func TestPublishedDefaults(t *testing.T) {
	b := newBench(t)
	tasks := store.New(store.Config{})
	of := func(name string, attempts int) store.Defaults {
		return store.Defaults{Type: name, MaxAttempts: attempts}
	}
	b.publishes("shop", []string{"CHARGE", "MAIL"}, of("CHARGE", 3), of("MAIL", 4), of(store.AllTypes, 9))
	b.wantDefaults("the first version", "* 9 shop, CHARGE 3 shop, MAIL 4 shop")
	b.publishes("shop", []string{"REPORT"}, of("REPORT", 2))
	b.wantDefaults("a process with other handlers", "* 9 shop, CHARGE 3 shop, MAIL 4 shop, REPORT 2 shop")
	b.publishes("shop", []string{"CHARGE", "MAIL"}, of("CHARGE", 5))
	b.wantDefaults("the next version", "* 9 shop, CHARGE 5 shop, REPORT 2 shop")
	b.Did(tasks.SetDefaults(t.Context(), b.Pool, of("MAIL", 7)))
	b.publishes("other", []string{"CHARGE", "MAIL", "TELL"}, of("CHARGE", 1), of("MAIL", 1), of("TELL", 1))
	b.wantDefaults("another service", "* 9 shop, CHARGE 5 shop, MAIL 7, REPORT 2 shop, TELL 1 other")
	b.publishes("shop", []string{"CHARGE", "MAIL", "TELL"})
	b.wantDefaults("without defaults", "* 9 shop, MAIL 7, REPORT 2 shop, TELL 1 other")
	b.Did(tasks.SetDefaults(t.Context(), b.Pool, of("TELL", 6)))
	b.publishes("other", []string{"TELL"}, of("TELL", 1))
	b.wantDefaults("somebody has changed published ones", "* 9 shop, MAIL 7, REPORT 2 shop, TELL 6")
}
