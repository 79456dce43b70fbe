package store_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// unencodable and scalar are payloads that encoding/json cannot make an object of.
type (
	unencodable struct{ C chan int }
	scalar      string
	clashing    struct {
		Type string `json:"type"`
	}
	nameless struct{}
	pointer  struct{ N int }
)

func (unencodable) TaskType() string { return "UNENCODABLE" }
func (scalar) TaskType() string      { return "SCALAR" }
func (clashing) TaskType() string    { return "CLASHING" }
func (nameless) TaskType() string    { return "" }
func (pointer) TaskType() string     { return "POINTER" }

// badTasks break one rule each. The error names the field and the rule.
var badTasks = []struct {
	name        string
	change      func(*store.Task)
	field, rule string
}{
	{"id of 513 bytes", func(t *store.Task) { t.ID = strings.Repeat("x", 513) }, "id", "at most 512 bytes"},
	{
		"id of 171 characters of 3 bytes", func(t *store.Task) { t.ID = strings.Repeat("€", 171) }, "id",
		"at most 512 bytes",
	},
	{"id with a newline", func(t *store.Task) { t.ID = "a\nb" }, "id", "without control characters"},
	{"id with NUL", func(t *store.Task) { t.ID = "a\x00b" }, "id", "without control characters"},
	{"id with DEL", func(t *store.Task) { t.ID = "a\x7fb" }, "id", "without control characters"},
	{"id with a C1 control", func(t *store.Task) { t.ID = "a\u0085b" }, "id", "without control characters"},
	{"id of invalid UTF-8", func(t *store.Task) { t.ID = "a\xffb" }, "id", "UTF-8"},
	{"empty key", func(t *store.Task) { t.ID, t.Payload = "", counted{} }, "id", "TaskKey that is not empty"},
	{"bad key", func(t *store.Task) { t.ID, t.Payload = "", counted{key: "a\tb"} }, "id", "without control characters"},

	{"backoff", func(t *store.Task) { t.Backoff = "1 minute" }, "backoff", "must be a wait such as 1m"},
	{"timeout below 0", func(t *store.Task) { t.Timeout = -1 }, "timeout", "must be between 1µs and 7 days"},
	{"timeout of a week and more", func(t *store.Task) { t.Timeout = store.MaxTimeout + 1 }, "timeout", "must be between 1µs and 7 days"},
	{"deadline in the year 10000", func(t *store.Task) { t.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"deadline", "must be in the years 1 to 9999"},
	{"deadline at the time of the task", func(t *store.Task) { t.At, t.Deadline = far(1), far(1) }, "deadline",
		"must be later than the time of the task"},
	{"deadline of a recurring task",
		func(t *store.Task) { t.Deadline, t.Recurrence = far(0), &store.Recurrence{Cron: "@daily"} }, "deadline",
		"must be empty for a task that recurs"},

	{"no payload", func(t *store.Task) { t.Payload = nil }, "payload", "must not be nil"},
	{"nil pointer", func(t *store.Task) { t.Payload = (*pointer)(nil) }, "payload", "must not be nil"},
	{
		"an envelope of its own",
		func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","$codec":"x","$data":""}`) }, "payload",
		`no field "$codec"`,
	},
	{"no object", func(t *store.Task) { t.Payload = scalar("x") }, "payload", "JSON object"},
	{"a channel", func(t *store.Task) { t.Payload = unencodable{} }, "payload", "cannot be encoded"},
	{"empty JSON", func(t *store.Task) { t.Payload = store.JSON(``) }, "type", "2 to 127"},
	{"an array", func(t *store.Task) { t.Payload = store.JSON(`["type"]`) }, "type", "2 to 127"},
	{"truncated", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST"`) }, "type", "2 to 127"},
	{"no type", func(t *store.Task) { t.Payload = store.JSON(`{"n":1}`) }, "type", "2 to 127"},
	{"type of another case", func(t *store.Task) { t.Payload = store.JSON(`{"Type":"TEST"}`) }, "type", "2 to 127"},
	{"type is a number", func(t *store.Task) { t.Payload = store.JSON(`{"type":12}`) }, "type", "2 to 127"},
	{"empty type", func(t *store.Task) { t.Payload = nameless{} }, "type", "2 to 127"},
	{"type of one letter", func(t *store.Task) { t.Payload = store.JSON(`{"type":"A"}`) }, "type", "2 to 127"},
	{"type of 128", func(t *store.Task) { t.Payload = typed(strings.Repeat("A", 128)) }, "type", "2 to 127"},
	{"type with a space", func(t *store.Task) { t.Payload = typed("A B") }, "type", "2 to 127"},
	{"type with a newline at its end", func(t *store.Task) { t.Payload = typed("AB\n") }, "type", "2 to 127"},
	{"type that begins with a dash", func(t *store.Task) { t.Payload = typed("-AB") }, "type", "2 to 127"},
	{
		"type clash", func(t *store.Task) { t.Payload = clashing{Type: "OTHER"} }, "payload",
		`no field type other than "CLASHING"`,
	},
	{"NUL", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","s":"\u0000"}`) }, "payload", "without NUL"},
	{
		"NUL in a key", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","\u0000":1}`) }, "payload",
		"without NUL",
	},
	{
		"invalid UTF-8", func(t *store.Task) { t.Payload = store.JSON("{\"type\":\"TEST\",\"s\":\"\xff\"}") },
		"payload", "UTF-8",
	},
	{
		"half a surrogate pair", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","s":"\ud83d"}`) },
		"payload", "surrogate",
	},
	{
		"the other half", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","s":"\ude00x"}`) }, "payload",
		"surrogate",
	},
	{
		"too large a number", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","n":1e131072}`) }, "payload",
		"numeric",
	},
	{
		"too small a number", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","n":1e-16384}`) }, "payload",
		"numeric",
	},
	{
		"absurd exponent", func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","n":0e99999999999999999999}`) },
		"payload", "numeric",
	},
	{"too deep", func(t *store.Task) {
		t.Payload = store.JSON(`{"type":"TEST","n":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)
	},
		"payload", "nested at most 1000 deep"},
	{
		"a byte too much", func(t *store.Task) { t.Payload = sized(store.MaxPayloadBytes + 1) }, "payload",
		"at most 256 KiB",
	},
	{
		"a number that is long written out",
		func(t *store.Task) { t.Payload = store.JSON(`{"type":"TEST","n":[1e131071,1e131071]}`) }, "payload",
		"at most 256 KiB",
	},

	{
		"year 10000", func(t *store.Task) { t.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "scheduled_at",
		"years 1 to 9999",
	},
	{
		"year 10000 elsewhere",
		func(t *store.Task) { t.At = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)) }, "scheduled_at",
		"years 1 to 9999",
	},
	{
		"year 0", func(t *store.Task) { t.At = time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC) }, "scheduled_at",
		"years 1 to 9999",
	},
	{"the least time", func(t *store.Task) { t.At = time.Unix(math.MinInt64, 0) }, "scheduled_at", "years 1 to 9999"},
	{
		"the greatest time", func(t *store.Task) { t.At = time.Unix(math.MaxInt64/2, 0) }, "scheduled_at",
		"years 1 to 9999",
	},

	{
		"negative expiration", func(t *store.Task) { t.Expiration = -time.Second }, "expiration",
		"between 1µs and 10 years",
	},
	{
		"expiration below a µs", func(t *store.Task) { t.Expiration = time.Microsecond - 1 }, "expiration",
		"between 1µs and 10 years",
	},
	{
		"expiration over 10 years", func(t *store.Task) { t.Expiration = store.MaxExpiration + 1 }, "expiration",
		"between 1µs and 10 years",
	},
	{
		"the longest expiration", func(t *store.Task) { t.Expiration = math.MaxInt64 }, "expiration",
		"between 1µs and 10 years",
	},
	{
		"negative execution time", func(t *store.Task) { t.ExpectedExecutionTime = -1 }, "expected_execution_time",
		"between 1µs and 7 days",
	},
	{
		"execution time below a µs", func(t *store.Task) { t.ExpectedExecutionTime = 999 }, "expected_execution_time",
		"between 1µs and 7 days",
	},
	{
		"execution time over 7 days",
		func(t *store.Task) { t.ExpectedExecutionTime = store.MaxExpectedExecutionTime + 1 }, "expected_execution_time",
		"between 1µs and 7 days",
	},

	{"priority 101", func(t *store.Task) { t.Priority = 101 }, "priority", "between -100 and 100"},
	{"priority -101", func(t *store.Task) { t.Priority = -101 }, "priority", "between -100 and 100"},
	{"priority over 32 bits", func(t *store.Task) { t.Priority = math.MaxInt }, "priority", "between -100 and 100"},
	{"attempts -1", func(t *store.Task) { t.MaxAttempts = -1 }, "max_attempts", "between 1 and 1000"},
	{"attempts 1001", func(t *store.Task) { t.MaxAttempts = 1001 }, "max_attempts", "between 1 and 1000"},
	{"queue of capitals", func(t *store.Task) { t.Queue = "Mail" }, "queue", "1 to 64 of a-z"},
	{"queue with an outer dash", func(t *store.Task) { t.Queue = "mail-" }, "queue", "1 to 64 of a-z"},
	{"queue of 65", func(t *store.Task) { t.Queue = strings.Repeat("q", 65) }, "queue", "1 to 64 of a-z"},
	{"queue with a newline at its end", func(t *store.Task) { t.Queue = "mail\n" }, "queue", "1 to 64 of a-z"},
	{"entity of 513", func(t *store.Task) { t.Entity = strings.Repeat("e", 513) }, "entity", "at most 512 bytes"},
	{"entity of invalid UTF-8", func(t *store.Task) { t.Entity = "\xc3" }, "entity", "UTF-8"},
	{"tenant with a tab", func(t *store.Task) { t.TenantID = "a\tb" }, "tenant_id", "without control characters"},
	{"policy", func(t *store.Task) { t.IfFinished = "never" }, "if_finished", "must be rearm or keep, or empty"},
}

// sized is JSON that Postgres writes in so many bytes.
func sized(bytes int) store.JSON {
	const around = `{"s": "", "type": "TEST"}`
	return store.JSON(`{"type":"TEST","s":"` + strings.Repeat("x", bytes-len(around)) + `"}`)
}

// eachBad calls do with each of badTasks and badRecurring.
func eachBad(do func(name string, good, bad store.Task, field, rule string)) {
	for _, one := range badTasks {
		task := base("one")
		one.change(&task)
		do(one.name, base("good"), task, one.field, one.rule)
	}
	for _, one := range badRecurring {
		task := recurs("one")
		one.change(&task)
		do(one.name, recurs("good"), task, one.field, one.rule)
	}
}

func TestBadTasksAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	eachBad(func(name string, good, task store.Task, field, rule string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := benchOn(t, nil)
			_, alone := b.Tasks.Schedule(b.Ctx, noDB(b), task)
			_, many := b.Tasks.ScheduleMany(b.Ctx, noDB(b), []store.Task{good, task})
			_, fixed := task.Fixed()
			calls := map[string]error{"Schedule": alone, "ScheduleMany": many, "Check": task.Check(), "Fixed": fixed}
			if field != "entity" { // there it is another rule: the entity must be Sync's
				task.Entity = ""
				_, calls["Sync"] = b.Tasks.Sync(b.Ctx, noDB(b), "event:1", task)
			}
			for call, err := range calls {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), field) ||
					!strings.Contains(err.Error(), rule) {
					t.Errorf("%s: %v; should name %q and %q", call, err, field, rule)
				}
				if err != nil && len(err.Error()) > 600 {
					t.Errorf("%s: an error of %d bytes", call, len(err.Error()))
				}
			}
		})
	})
}

func TestBadArgumentsOfVerbsAndReads(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	db := noDB(b)
	ids := map[string]func(id string) error{
		"Reschedule": func(id string) error { _, err := b.Tasks.Reschedule(b.Ctx, db, id, far(0)); return err },
		"Cancel":     func(id string) error { _, err := b.Tasks.Cancel(b.Ctx, db, id); return err },
		"Pause":      func(id string) error { _, err := b.Tasks.Pause(b.Ctx, db, id); return err },
		"Resume":     func(id string) error { _, err := b.Tasks.Resume(b.Ctx, db, id); return err },
		"RunNow":     func(id string) error { _, err := b.Tasks.RunNow(b.Ctx, db, id); return err },
		"Retry":      func(id string) error { _, err := b.Tasks.Retry(b.Ctx, db, id); return err },
		"Archive":    func(id string) error { _, err := b.Tasks.Archive(b.Ctx, db, id, ""); return err },
		"Delete":     func(id string) error { _, err := b.Tasks.Delete(b.Ctx, db, id); return err },
		"Get":        func(id string) error { _, err := b.Tasks.Get(b.Ctx, db, id); return err },
		"History":    func(id string) error { _, err := b.Tasks.History(b.Ctx, db, id); return err },
	}
	for name, call := range ids {
		for _, id := range []string{"", strings.Repeat("x", 513), "a\x00", "a\u009f", "\xff"} {
			if err := call(id); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "id must be") {
				t.Errorf("%s(%.10q): %v", name, id, err)
			}
		}
	}
	for what, call := range map[string]func() error{
		"scheduled_at must be given": func() error {
			_, err := b.Tasks.Reschedule(b.Ctx, db, "one", time.Time{})
			return err
		},
		"scheduled_at must be in the years": func() error {
			_, err := b.Tasks.Reschedule(b.Ctx, db, "one", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
			return err
		},
		"note must be UTF-8 without NUL": func() error {
			_, err := b.Tasks.Archive(b.Ctx, db, "one", "a\x00b")
			return err
		},
		"entity must be 1 to 512":    func() error { _, err := b.Tasks.Sync(b.Ctx, db, ""); return err },
		"entity must be at most 512": func() error { _, err := b.Tasks.Sync(b.Ctx, db, "\x01"); return err },
		"limit must be": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{Limit: -1})
			return err
		},
		"limit must be between": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{Limit: 10001})
			return err
		},
		"status must be": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{Statuses: []store.Status{"\x00"}})
			return err
		},
		"tenant_id must be": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{TenantID: "\xff"})
			return err
		},
		"after must be at most": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{After: &store.Row{ID: "\xff"}})
			return err
		},
		"scheduled_from must be in the years": func() error {
			_, err := b.Inspector.List(b.Ctx, db, inspect.Filter{ScheduledFrom: time.Unix(math.MinInt64, 0)})
			return err
		},
		"service must be": func() error {
			_, err := store.New(store.Config{Service: "\n"}).Cancel(b.Ctx, db, "one")
			return err
		},
		"schema \"Bad\" must be 1 to 46 of a-z": func() error {
			_, err := store.New(store.Config{Schema: "Bad"}).Get(b.Ctx, db, "one")
			return err
		},
		"schema \"a;b\" must be 1 to 46 of a-z": func() error {
			_, err := store.New(store.Config{Schema: "a;b"}).Schedule(b.Ctx, db, base("one"))
			return err
		},
		"must be 1 to 46 of a-z, 0-9 and _, not starting": func() error {
			_, err := inspect.New(store.Config{Schema: strings.Repeat("a", 47)}).List(b.Ctx, db, inspect.Filter{})
			return err
		},
	} {
		if err := call(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v does not say %s", err, what)
		}
	}
}

func TestTheTransactionIsUsableAfterBadInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `CREATE TABLE mine AS SELECT 1`)
	eachBad(func(name string, _, task store.Task, _, _ string) {
		if _, err := b.Tasks.Schedule(b.Ctx, tx, task); err == nil {
			t.Errorf("%s: accepted", name)
		}
	})
	before := b.state("one")
	_, err := b.Tasks.Cancel(b.Ctx, tx, "one")
	b.Check(err)
	b.Check(tx.Commit(b.Ctx))
	if after := b.state("one"); len(after.Changes) != len(before.Changes)+1 ||
		after.Row.Status != store.StatusCancelled {
		t.Errorf("got %s", pretty(after))
	}
}

func TestClosedTransactionsAndOtherDeadEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{})
	b.Check(tx.Commit(b.Ctx))
	if _, err := b.Tasks.Schedule(b.Ctx, tx, base("one")); !errors.Is(err, pgx.ErrTxClosed) ||
		errors.Is(err, store.ErrInvalid) {
		t.Errorf("pgx: %v", err)
	}
	sqlTx, err := b.OpenSQL("pgx").BeginTx(b.Ctx, nil)
	b.Check(err)
	b.Check(sqlTx.Commit())
	if _, err := b.Tasks.Cancel(b.Ctx, store.SQL(sqlTx), "one"); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("database/sql: %v", err)
	}
	failed := b.Begin(pgx.TxOptions{})
	_, _ = failed.Exec(b.Ctx, `SELECT 1/0`)
	if _, err := b.Tasks.Schedule(b.Ctx, failed, base("one")); err == nil || !strings.Contains(err.Error(), "25P02") {
		t.Errorf("in a failed transaction: %v", err)
	}
	ended, cancel := context.WithCancel(b.Ctx)
	cancel()
	if _, err := b.Tasks.Schedule(ended, b.Pool, base("one")); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	elsewhere := store.New(store.Config{Schema: "elsewhere"})
	if _, err := elsewhere.Schedule(b.Ctx, b.Pool, base("one")); err == nil ||
		!strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("in a schema that is not there: %v", err)
	}
	if b.Get("one") != nil {
		t.Error("a task was made")
	}
}
