package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A deployment of one node that has run a task is well: all that the doctor may complain about is how the
// tests' server is set.
func TestAHealthyDeployment(t *testing.T) {
	p := newPatient(t)
	p.node()
	p.put("one", "TEST", "default", 0)
	p.until("the task has run", `SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED')`)
	report := p.examine(nil)
	unsafe := map[string]bool{} // tests run without the disk's cooperation
	for _, setting := range []string{"fsync", "full_page_writes"} {
		unsafe[setting] = ask[bool](p, `SELECT NOT current_setting($1)::boolean`, setting)
	}
	checked := map[string]bool{}
	for _, one := range report.Findings {
		checked[one.Check] = true
		setting, _, _ := strings.Cut(one.Found, " ")
		switch {
		case one.Check == "settings" && unsafe[setting] && one.Level == Error:
			unsafe[setting] = false
		case one.Level != OK:
			t.Errorf("%s %s: %s -> %s", one.Level, one.Check, one.Found, one.Do)
		case one.Do != "":
			t.Errorf("something is to be done about what is well: %+v", one)
		}
	}
	for setting, missing := range unsafe {
		if missing {
			t.Errorf("%s is off, and it does not say so:\n%s", setting, list(report))
		}
	}
	for _, name := range Checks() {
		if !checked[name] && name != "settings" {
			t.Errorf("check %s says nothing:\n%s", name, list(report))
		}
	}
	p.finds(report, "leader", OK, "leads: test on")
	p.finds(report, "nodes", OK, "1 node of service test, version v1, queues default=100")
}

// It changes nothing, and leaves no session.
func TestItOnlyReads(t *testing.T) {
	p := newPatient(t)
	p.put("one", "TEST", "default", time.Hour)
	const all = `SELECT md5(string_agg(x::text, '' ORDER BY x::text)) FROM (
		SELECT t::text FROM tasktable.scheduled_tasks AS t UNION ALL SELECT n::text FROM tasktable.nodes AS n
		UNION ALL SELECT c::text FROM tasktable.scheduled_task_changes AS c UNION ALL SELECT last_value::text
			FROM tasktable.task_numbers) AS x`
	before := ask[string](p, all)
	p.examine(nil)
	if ask[string](p, all) != before {
		t.Error("something has changed")
	}
	p.until("its session is gone",
		`SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'tasktable doctor')`)
}

func TestOnlyAndSkip(t *testing.T) {
	p := newPatient(t)
	names := func(report Report) (names []string) {
		for _, one := range report.Findings {
			names = append(names, one.Check)
		}
		return slices.Compact(names)
	}
	if got := names(p.examine(nil, "clock", "bloat")); !slices.Equal(got, []string{"clock", "bloat"}) {
		t.Errorf("made %v", got)
	}
	got := names(p.examineBy(func(c *Config) { c.Skip = []string{"settings", "nodes"} }))
	if slices.Contains(got, "settings") || slices.Contains(got, "nodes") || len(got) != len(Checks())-2 {
		t.Errorf("made %v", got)
	}
}

// What there is no table for is not looked at, whatever is asked for.
func TestOnlyWithoutTables(t *testing.T) {
	t.Parallel()
	p := at(t, storetest.EmptyURL(t))
	report := p.examine(nil, "triggers", "clock")
	p.finds(report, "versions", Error, "there is no schema")
	for _, one := range report.Findings {
		if one.Check == "triggers" {
			t.Errorf("it looks for triggers: %+v", one)
		}
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, "postgres://nobody@127.0.0.1:1/none", nil)
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"no pool": {Config{}, "Pool is required"},
		"schema":  {Config{Pool: pool, Schema: "My Schema"}, "Schema: invalid"},
		"check": {
			Config{Pool: pool, Skip: []string{"weather"}}, `Only and Skip must be of connection, room, versions`,
		},
		"conns": {Config{Pool: pool, EngineConns: 2}, "EngineConns must be between 3 and 100, got 2"},
	} {
		if _, err := Examine(t.Context(), test.config); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nobody there is a finding, and the only one.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, test := range map[string]struct{ url, want, do string }{
		"nobody listens": {
			"postgres://u:" + secret + "@127.0.0.1:1/db?connect_timeout=5", "connection refused", "host and port",
		},
		"no such host": {"postgres://u:" + secret + "@nowhere.invalid/db?connect_timeout=5", "nowhere.invalid",
			"host and port"},
	} {
		report, err := Examine(t.Context(), Config{Pool: poolOf(t, test.url, nil)})
		if err != nil || len(report.Findings) != 1 {
			t.Fatalf("%s: %v\n%s", name, err, list(report))
		}
		one := report.Findings[0]
		if one.Check != "connection" || one.Level != Error || !strings.Contains(one.Found, test.want) ||
			!strings.Contains(one.Do, test.do) {
			t.Errorf("%s: %+v", name, one)
		}
		if strings.Contains(list(report), secret) {
			t.Errorf("%s: it tells the password: %s", name, list(report))
		}
	}
}

// A server that takes connections and says nothing is waited for once, not for each check.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	ok(t, err)
	defer func() { _ = listener.Close() }()
	pool := poolOf(t, fmt.Sprintf("postgres://u@%s/x?sslmode=disable", listener.Addr()), nil)
	limits := defaultLimits
	limits.check = time.Second
	began := time.Now()
	report, err := Examine(t.Context(), Config{Pool: pool, limits: limits})
	if err != nil || len(report.Findings) != 1 || report.Reached ||
		!strings.Contains(report.Findings[0].Found, "no answer within 1s") {
		t.Errorf("%v\n%s", err, list(report))
	}
	if took := time.Since(began); took > time.Duration(len(checks)/2)*limits.check {
		t.Errorf("it took %s", took)
	}
}

func TestRefusedAtTheDoor(t *testing.T) {
	p := newPatient(t)
	refused := func(change func(*pgxpool.Config)) Finding {
		report, err := Examine(p.ctx, Config{Pool: poolOf(t, p.url, change)})
		if err != nil || len(report.Findings) != 1 {
			t.Fatalf("%v\n%s", err, list(report))
		}
		return report.Findings[0]
	}
	one := refused(func(c *pgxpool.Config) { c.ConnConfig.Database = "no_such_database" })
	if !strings.Contains(one.Do, "create the database") {
		t.Errorf("no database: %+v", one)
	}
	one = refused(func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Password = "nobody_of_this_name", "hunter2"
	})
	if !strings.Contains(one.Do, "user and password") || strings.Contains(one.Found, "hunter2") {
		t.Errorf("no role: %+v", one)
	}
}

// A check that fails is a finding, and the others go on.
func TestAFailingCheckIsAFinding(t *testing.T) {
	p := newPatient(t)
	locker := p.connect()
	p.on(locker, "BEGIN", "LOCK TABLE tasktable.pauses IN ACCESS EXCLUSIVE MODE")
	report := p.examine(nil, "attention", "retention")
	p.finds(report, "attention", Warning, "not checked", "lock timeout")
	p.finds(report, "retention", OK)
	p.on(locker, "ROLLBACK")
	p.exec(`ALTER TABLE tasktable.pauses RENAME COLUMN reason TO why`)
	p.finding("attention", Warning, "not checked", `column p.reason does not exist`)
}

func TestAnEndedContext(t *testing.T) {
	p := newPatient(t)
	ctx, cancel := context.WithCancelCause(p.ctx)
	cancel(errors.New("enough"))
	if _, err := Examine(ctx, Config{Pool: p.pool}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}
