package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestIdleInTransaction(t *testing.T) {
	p := newPatient(t)
	idler := p.connect()
	p.on(idler, "SET application_name = 'the idler'", "BEGIN", "SELECT count(*) FROM tasktable.scheduled_tasks")
	soon := func(l *limits) { l.idle = time.Nanosecond }
	p.well(p.examine(nil, "snapshots"))
	found := p.finds(p.examine(soon, "snapshots"), "snapshots", Warning, `application "the idler"`,
		"has been idle in a transaction for", fmt.Sprint("pid ", idler.PgConn().PID()))
	if !containsAll(found.Do, []string{fmt.Sprintf("pg_terminate_backend(%d)", idler.PgConn().PID()),
		"idle_in_transaction_session_timeout"}) {
		t.Errorf("it says %q", found.Do)
	}
	p.on(idler, "ROLLBACK")
	p.well(p.examine(soon, "snapshots"))
}

func TestALongTransaction(t *testing.T) {
	p := newPatient(t)
	worker := p.connect()
	p.on(worker, "SET application_name = 'the worker'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	p.finds(p.examine(func(l *limits) { l.transaction = time.Nanosecond }, "snapshots"), "snapshots", Warning,
		`application "the worker"`, "has been in one transaction for")
	// Whose beginning is hidden is known by how many transactions have begun since.
	p.exec(`SELECT pg_current_xact_id()`)
	p.exec(`SELECT pg_current_xact_id()`)
	p.finds(p.examine(func(l *limits) { l.horizon = 1 }, "snapshots"), "snapshots", Warning, `application "the worker"`,
		"transactions old: it keeps dead rows")
}

func TestPreparedTransactions(t *testing.T) {
	p := newPatient(t)
	if ask[int](p, `SELECT current_setting('max_prepared_transactions')::int`) == 0 {
		t.Skip("the server allows no prepared transactions")
	}
	name := fmt.Sprintf("it's %d", time.Now().UnixNano()) // they are the whole server's
	p.on(p.connect(), "BEGIN", "SELECT pg_current_xact_id()", "PREPARE TRANSACTION "+quoted(name))
	t.Cleanup(func() { _, _ = p.pool.Exec(p.ctx, "ROLLBACK PREPARED "+quoted(name)) })
	p.well(p.examine(nil, "snapshots"))
	soon := func(l *limits) { l.transaction = time.Nanosecond }
	found := p.finds(p.examine(soon, "snapshots"), "snapshots", Warning, "prepared transaction "+name)
	if want := "COMMIT PREPARED " + quoted(name) + "; or ROLLBACK PREPARED " + quoted(name) +
		"; as its coordinator has decided"; found.Do != want {
		t.Errorf("it says %q", found.Do)
	}
	p.exec("ROLLBACK PREPARED " + quoted(name))
	p.well(p.examine(soon, "snapshots"))
}

// Findings of servers that this machine does not have are made up.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		find  func(*examination)
		level Level
		want  string
	}{
		"too old": {
			func(e *examination) { e.postgres(versionsRow{Name: "13.9", Major: 13}) }, Error,
			"Postgres 13.9 is older than 14",
		},
		"oldest": {func(e *examination) { e.postgres(versionsRow{Name: "14.0", Major: 14}) }, OK, "Postgres 14.0"},
		"newest": {func(e *examination) { e.postgres(versionsRow{Name: "18.1", Major: 18}) }, OK, "Postgres 18.1"},
		"too new": {
			func(e *examination) { e.postgres(versionsRow{Name: "19beta1", Major: 19}) }, Info,
			"Postgres 19beta1 is newer than 18",
		},
		"a standby": {
			func(e *examination) { e.standby(true) }, Error,
			"the server is a standby: nothing can be scheduled or run on it",
		},
		"an unknown error": {
			func(e *examination) { e.failed(errors.New("it was so")) }, Warning, "not checked: it was so",
		},
	} {
		e := &examination{config: Config{limits: defaultLimits}}
		test.find(e)
		if len(e.report.Findings) != 1 || e.report.Findings[0].Level != test.level ||
			!strings.HasPrefix(e.report.Findings[0].Found, test.want) {
			t.Errorf("%s: %+v", name, e.report.Findings)
		}
	}
	if e := (&examination{}); e.standby(false) || len(e.report.Findings) != 0 {
		t.Errorf("a primary: %+v", e.report.Findings)
	}
}

// Slots and standbys belong to the whole server, which other tests use too: they are made up.
func TestSlotsAndStandbys(t *testing.T) {
	t.Parallel()
	const many = 2_000_000
	old, young := 100.0, 0.1
	for name, test := range map[string]struct {
		find func(*examination)
		want string
	}{
		"slot with rows": {func(e *examination) { e.slot(slotRow{"s", true, many, 0}) },
			"replication slot s keeps what is 2000000 transactions old"},
		"slot nobody reads": {func(e *examination) { e.slot(slotRow{"s", false, 0, many}) },
			"replication slot s, which nobody reads, keeps the catalogs"},
		"slot that is read": {func(e *examination) { e.slot(slotRow{"s", true, 0, many}) }, ""},
		"young slot":        {func(e *examination) { e.slot(slotRow{"s", false, 1000, 1000}) }, ""},
		"standby": {func(e *examination) {
			e.snapshotOf(snapshotRow{PID: 7, Kind: "walsender", Horizon: many, Transaction: &old})
		}, "standby of pid 7"},
		"young standby": {func(e *examination) {
			e.snapshotOf(snapshotRow{PID: 7, Kind: "walsender", Horizon: 5, Transaction: &old})
		}, ""},
		"a session nobody sees": {func(e *examination) { e.snapshotOf(snapshotRow{PID: 7, Horizon: many}) }, "pid 7"},
		"a young one": {func(e *examination) {
			e.snapshotOf(snapshotRow{
				PID: 7, State: "idle in transaction", Horizon: 5, Transaction: &young, Unchanged: &young,
			})
		}, ""},
	} {
		e := &examination{config: Config{limits: defaultLimits}}
		test.find(e)
		switch {
		case test.want == "" && len(e.report.Findings) != 0, test.want != "" && len(e.report.Findings) != 1:
			t.Errorf("%s: %+v", name, e.report.Findings)
		case test.want != "" && (!containsAll(e.report.Findings[0].Found, []string{test.want}) ||
			e.report.Findings[0].Do == ""):
			t.Errorf("%s: %+v", name, e.report.Findings)
		}
	}
}

func TestNotifications(t *testing.T) {
	p := newPatient(t)
	p.finding("notifications", OK, "the queue of notifications is 0 % full")
	p.finds(p.examine(func(l *limits) { l.notifications = -1 }, "notifications"), "notifications", Warning,
		"queue of notifications is 0 % full")
}
