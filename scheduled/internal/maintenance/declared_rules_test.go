package maintenance

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

func (b *bench) ruleProgram(service string, recurring []store.Task, declared ...rules.Rule) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Recurring: recurring, Notices: declared}, Log: enginetest.Logger()}), b}
}

func (b *bench) rules(what, want string) {
	b.T.Helper()
	found, err := rules.New(rules.Config{}).List(b.T.Context(), b.Pool)
	b.OK(err)
	var got []string
	for _, rule := range found {
		got = append(got, rule.Name+":"+rule.DeclaredBy+":"+string(rule.Events[0]))
	}
	if text := strings.Join(got, " "); text != want {
		b.T.Errorf("%s: %q, want %q", what, text, want)
	}
}

// The newest version's rules hold, and those of others stay. A rule that cannot be declared is tried again, and keeps
// no recurring task from being declared.
func TestDeclaredRules(t *testing.T) {
	b := newBench(t)
	all := rules.New(rules.Config{})
	rule := func(name string, event rules.Event) rules.Rule {
		return rules.Rule{Name: name, Events: []rules.Event{event}, Recipients: []string{"ops"}}
	}
	older := b.ruleProgram("shop", []store.Task{cron("daily", "@daily")}, rule("dead", rules.Failed), rule("lost", rules.Lost))
	older.deploy(1)
	if err := older.runOnce(t.Context()); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "there is no ops") {
		t.Errorf("without the recipient: %v", err)
	}
	b.declared("without the recipient", "daily shop QUEUED @daily 1")
	b.rules("without the recipient", "")
	b.Did(all.SetRecipient(t.Context(), b.Pool, rules.Recipient{Name: "ops", Target: "ops"}))
	b.Did(all.Set(t.Context(), b.Pool, rule("mine", rules.Failed)))
	other := b.ruleProgram("mailer", nil, rule("mail", rules.Failed))
	other.deploy(2)
	other.looks()
	older.looks()
	b.rules("declared", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")
	if _, err := all.Set(t.Context(), b.Pool, rule("dead", rules.Late)); !errors.Is(err, rules.ErrDeclared) {
		t.Errorf("an operator changed a declared rule: %v", err)
	}

	newer := b.ruleProgram("shop", nil, rule("dead", rules.Expired))
	newer.deploy(3)
	newer.looks()
	older.looks()
	b.rules("a newer version", "dead:shop:expired mail:mailer:failed mine::failed")
	b.declared("a newer version without recurring tasks", "daily shop QUEUED @daily 1")
	b.kill(3)
	older.looks()
	b.rules("rolled back", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")

	taker := b.ruleProgram("taker", nil, rule("new", rules.Failed), rule("mine", rules.Lost))
	taker.deploy(4)
	if err := taker.runOnce(t.Context()); !errors.Is(err, rules.ErrTaken) {
		t.Errorf("took an operator's rule: %v", err)
	}
	b.rules("a name that is taken", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")
	empty := b.ruleProgram("mailer", nil)
	empty.config.Notices, empty.hash = []rules.Rule{}, Declaration{Notices: []rules.Rule{}}.Hash()
	empty.deploy(5)
	empty.looks()
	b.rules("an empty list", "dead:shop:failed lost:shop:lost mine::failed")
}

// days is a calendar of one day.
func days(t *testing.T, name, day string) store.Calendar {
	t.Helper()
	span, err := recurrence.ParseSpan(day)
	enginetest.OK(t, err)
	return store.Calendar{Name: name, Days: []recurrence.Span{span}}
}

// closing is a program that declares calendars.
func (b *bench) closing(service string, declared ...store.Calendar) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Calendars: append([]store.Calendar{}, declared...)}, Log: enginetest.Logger()}), b}
}

func (b *bench) wantCalendars(want string) {
	b.T.Helper()
	const listSQL = `SELECT coalesce(string_agg(concat_ws(' ', name, days -> 0 ->> 'from', declared_by), ', '
		ORDER BY name), '') FROM tasktable.calendars`
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), listSQL).Scan(&got); err != nil || got != want {
		b.T.Errorf("calendars %q, %v, want %q", got, err, want)
	}
}

// The calendars of a service are those that its newest version declares. Those of others stay, and so does one that a
// task still needs.
func TestDeclaredCalendars(t *testing.T) {
	b := newBench(t)
	tasks := store.New(store.Config{})
	b.Did(tasks.SetCalendar(t.Context(), b.Pool, days(t, "own", "2027-01-01")))
	first := b.closing("events", days(t, "company", "2027-12-24"), days(t, "fair", "2027-05-03"),
		days(t, "old", "2027-02-02"))
	first.deploy(1)
	first.looks()
	b.wantCalendars("company 2027-12-24 events, fair 2027-05-03 events, old 2027-02-02 events, own 2027-01-01")
	err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		return b.closing("taker", days(t, "own", "2027-01-02")).calendars().apply(t.Context(), tx)
	})
	if !errors.Is(err, errOthers) {
		t.Errorf("the calendar of somebody else: %v", err)
	}
	b.Did(tasks.Schedule(t.Context(), b.Pool, store.Task{ID: "fair", Payload: job{Name: "fair"},
		Recurrence: &store.Recurrence{Cron: "@daily", OutOf: []string{"fair"}}}))
	second := b.closing("events", days(t, "company", "2027-12-27"))
	second.deploy(2)
	second.looks()
	first.looks()
	b.wantCalendars("company 2027-12-27 events, fair 2027-05-03 events, own 2027-01-01")
}

// limiting is a program that declares limits.
func (b *bench) limiting(service string, declared ...store.Limit) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Limits: append([]store.Limit{}, declared...)}, Log: enginetest.Logger()}), b}
}

func (b *bench) wantLimits(want string) {
	b.T.Helper()
	const listSQL = `SELECT coalesce(string_agg(concat_ws(' ', name, scope_name, max_running, declared_by), ', '
		ORDER BY name), '') FROM tasktable.limits`
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), listSQL).Scan(&got); err != nil || got != want {
		b.T.Errorf("limits %q, %v, want %q", got, err, want)
	}
}

func (p program) applyLimitsInTx(t *testing.T) error {
	return pgx.BeginFunc(t.Context(), p.b.Pool, func(tx pgx.Tx) error { return p.limits().apply(t.Context(), tx) })
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
	taker := b.limiting("taker", store.Limit{Name: "own", Of: store.Everything(), MaxRunning: 1})
	if err := taker.applyLimitsInTx(t); !errors.Is(err, errOthers) {
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
