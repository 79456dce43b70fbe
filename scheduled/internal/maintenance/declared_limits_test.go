package maintenance

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// limiting is a program that declares limits.
func (b *bench) limiting(service string, declared ...store.Limit) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Limits: append([]store.Limit{}, declared...)}, Log: enginetest.Logger()}), b}
}

func (b *bench) wantLimits(want string) {
	b.T.Helper()
	const listSQL = `SELECT coalesce(string_agg(concat_ws(' ', name, scope_name, max_running, declared_by), ', ' ORDER BY name), '')
		FROM tasktable.limits`
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), listSQL).Scan(&got); err != nil || got != want {
		b.T.Errorf("limits %q, %v, want %q", got, err, want)
	}
}

func (p program) applyLimitsInTx(t *testing.T) error {
	return pgx.BeginFunc(t.Context(), p.b.Pool, func(tx pgx.Tx) error { return p.applyLimits(t.Context(), tx) })
}

// The limits of a service are those that its newest version declares. Those of other services, and those that somebody
// has set, stay as they are.
func TestDeclaredLimits(t *testing.T) {
	b := newBench(t)
	tasks := store.New(store.Config{})
	b.Did(tasks.SetLimit(t.Context(), b.Pool, store.Limit{Name: "own", Of: store.Everything(), MaxRunning: 9}))
	charge := store.Limit{Name: "charge", Of: store.Type("CHARGE"), MaxRunning: 5}
	first := b.limiting("events", charge, store.Limit{Name: "mail", Of: store.Queue("mail"), MaxRunning: 2})
	first.deploy(1)
	first.looks()
	other := b.limiting("shop", store.Limit{Name: "shop", Of: store.Queue("shop"), MaxRunning: 1})
	other.deploy(2)
	other.looks()
	b.wantLimits("charge CHARGE 5 events, mail mail 2 events, own  9, shop shop 1 shop")
	if err := b.limiting("taker", store.Limit{Name: "own", Of: store.Everything(), MaxRunning: 1}).applyLimitsInTx(t); !errors.Is(err, errOthersLimits) {
		t.Errorf("the limit of somebody else: %v", err)
	}
	charge.MaxRunning = 7
	b.Did(tasks.SetLimit(t.Context(), b.Pool, charge))
	first.looks() // it has applied its list, so what somebody has changed stays
	b.wantLimits("charge CHARGE 7 events, mail mail 2 events, own  9, shop shop 1 shop")
	charge.MaxRunning = 3
	second := b.limiting("events", charge)
	second.deploy(3)
	second.looks()
	first.looks()
	b.wantLimits("charge CHARGE 3 events, own  9, shop shop 1 shop")
	third := b.limiting("events")
	third.deploy(4)
	third.looks()
	b.wantLimits("own  9, shop shop 1 shop")
}
