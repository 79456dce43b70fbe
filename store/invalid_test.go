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

// badTask is a rule of a field, and the changes of a good task that break it. The error names the field and the rule.
type badTask struct {
	field, rule string
	changes     map[string]func(*store.Task)
}

// breaks are changes by name.
type breaks = map[string]func(*store.Task)

// as is the change that gives a task the payload.
func as(payload store.Payload) func(*store.Task) { return func(t *store.Task) { t.Payload = payload } }

// year is a time in that year.
func year(n int) time.Time { return time.Date(n, 12, 31, 23, 0, 0, 0, time.UTC) }

var badTasks = []badTask{
	{"id", "at most 512 bytes", breaks{
		"513 bytes":                 func(t *store.Task) { t.ID = strings.Repeat("x", 513) },
		"171 characters of 3 bytes": func(t *store.Task) { t.ID = strings.Repeat("€", 171) },
	}},
	{"id", "without control characters", breaks{
		"a newline":    func(t *store.Task) { t.ID = "a\nb" },
		"NUL":          func(t *store.Task) { t.ID = "a\x00b" },
		"DEL":          func(t *store.Task) { t.ID = "a\x7fb" },
		"a C1 control": func(t *store.Task) { t.ID = "a\u0085b" },
		"a key":        func(t *store.Task) { t.ID, t.Payload = "", counted{key: "a\tb"} },
	}},
	{"id", "UTF-8", breaks{"other bytes": func(t *store.Task) { t.ID = "a\xffb" }}},
	{"id", "TaskKey that is not empty", breaks{
		"an empty key": func(t *store.Task) { t.ID, t.Payload = "", counted{} },
	}},

	{"backoff", "must be a wait such as 1m", breaks{"a word": func(t *store.Task) { t.Backoff = "1 minute" }}},
	{"timeout", "must be between 1µs and 7 days", breaks{
		"below 0":         func(t *store.Task) { t.Timeout = -1 },
		"a week and more": func(t *store.Task) { t.Timeout = store.MaxTimeout + 1 },
	}},
	{"deadline", "must be in the years 1 to 9999", breaks{
		"year 10000": func(t *store.Task) { t.Deadline = year(10000) },
	}},
	{"deadline", "must be later than the time of the task", breaks{
		"the same time": func(t *store.Task) { t.At, t.Deadline = far(1), far(1) },
	}},
	{"deadline", "must be empty for a task that recurs", breaks{
		"given": func(t *store.Task) { t.Deadline, t.Recurrence = far(0), &store.Recurrence{Cron: "@daily"} },
	}},

	{"payload", "must not be nil", breaks{"nil": as(nil), "a nil pointer": as((*pointer)(nil))}},
	{"payload", `no field "$codec"`, breaks{
		"an envelope of its own": as(store.JSON(`{"type":"TEST","$codec":"x","$data":""}`)),
	}},
	{"payload", "JSON object", breaks{"a text": as(scalar("x"))}},
	{"payload", "cannot be encoded", breaks{"a channel": as(unencodable{})}},
	{"type", "2 to 127", breaks{
		"empty JSON":              as(store.JSON(``)),
		"an array":                as(store.JSON(`["type"]`)),
		"truncated":               as(store.JSON(`{"type":"TEST"`)),
		"no type":                 as(store.JSON(`{"n":1}`)),
		"type of another case":    as(store.JSON(`{"Type":"TEST"}`)),
		"a number":                as(store.JSON(`{"type":12}`)),
		"empty":                   as(nameless{}),
		"one letter":              as(store.JSON(`{"type":"A"}`)),
		"128 letters":             as(typed(strings.Repeat("A", 128))),
		"a space":                 as(typed("A B")),
		"a newline at its end":    as(typed("AB\n")),
		"a dash at its beginning": as(typed("-AB")),
	}},
	{"payload", `no field type other than "CLASHING"`, breaks{"a clash": as(clashing{Type: "OTHER"})}},
	{"payload", "without NUL", breaks{
		"in a value": as(store.JSON(`{"type":"TEST","s":"\u0000"}`)),
		"in a key":   as(store.JSON(`{"type":"TEST","\u0000":1}`)),
	}},
	{"payload", "UTF-8", breaks{"other bytes": as(store.JSON("{\"type\":\"TEST\",\"s\":\"\xff\"}"))}},
	{"payload", "surrogate", breaks{
		"half a pair":    as(store.JSON(`{"type":"TEST","s":"\ud83d"}`)),
		"the other half": as(store.JSON(`{"type":"TEST","s":"\ude00x"}`)),
	}},
	{"payload", "numeric", breaks{
		"too large":          as(store.JSON(`{"type":"TEST","n":1e131072}`)),
		"too small":          as(store.JSON(`{"type":"TEST","n":1e-16384}`)),
		"an absurd exponent": as(store.JSON(`{"type":"TEST","n":0e99999999999999999999}`)),
	}},
	{"payload", "nested at most 1000 deep", breaks{
		"1001": as(store.JSON(`{"type":"TEST","n":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)),
	}},
	{"payload", "at most 256 KiB", breaks{
		"a byte too much":                   as(sized(store.MaxPayloadBytes + 1)),
		"a number that is long written out": as(store.JSON(`{"type":"TEST","n":[1e131071,1e131071]}`)),
	}},

	{"scheduled_at", "years 1 to 9999", breaks{
		"year 10000":           func(t *store.Task) { t.At = year(10000) },
		"year 10000 elsewhere": func(t *store.Task) { t.At = year(9999).In(time.FixedZone("", -3600)).Add(time.Hour) },
		"year 0":               func(t *store.Task) { t.At = year(0) },
		"the least time":       func(t *store.Task) { t.At = time.Unix(math.MinInt64, 0) },
		"the greatest time":    func(t *store.Task) { t.At = time.Unix(math.MaxInt64/2, 0) },
	}},
	{"expiration", "between 1µs and 10 years", breaks{
		"below 0":       func(t *store.Task) { t.Expiration = -time.Second },
		"below a µs":    func(t *store.Task) { t.Expiration = time.Microsecond - 1 },
		"over 10 years": func(t *store.Task) { t.Expiration = store.MaxExpiration + 1 },
		"the longest":   func(t *store.Task) { t.Expiration = math.MaxInt64 },
	}},
	{"expected_execution_time", "between 1µs and 7 days", breaks{
		"below 0":     func(t *store.Task) { t.ExpectedExecutionTime = -1 },
		"below a µs":  func(t *store.Task) { t.ExpectedExecutionTime = 999 },
		"over 7 days": func(t *store.Task) { t.ExpectedExecutionTime = store.MaxExpectedExecutionTime + 1 },
	}},
	{"priority", "between -100 and 100", breaks{
		"101":          func(t *store.Task) { t.Priority = 101 },
		"-101":         func(t *store.Task) { t.Priority = -101 },
		"over 32 bits": func(t *store.Task) { t.Priority = math.MaxInt },
	}},
	{"max_attempts", "between 1 and 1000", breaks{
		"-1":   func(t *store.Task) { t.MaxAttempts = -1 },
		"1001": func(t *store.Task) { t.MaxAttempts = 1001 },
	}},
	{"queue", "1 to 64 of a-z", breaks{
		"capitals":             func(t *store.Task) { t.Queue = "Mail" },
		"an outer dash":        func(t *store.Task) { t.Queue = "mail-" },
		"65 letters":           func(t *store.Task) { t.Queue = strings.Repeat("q", 65) },
		"a newline at its end": func(t *store.Task) { t.Queue = "mail\n" },
	}},
	{"entity", "at most 512 bytes", breaks{"513": func(t *store.Task) { t.Entity = strings.Repeat("e", 513) }}},
	{"entity", "UTF-8", breaks{"half a character": func(t *store.Task) { t.Entity = "\xc3" }}},
	{"tenant_id", "without control characters", breaks{"a tab": func(t *store.Task) { t.TenantID = "a\tb" }}},
	{"if_finished", "must be rearm or keep, or empty", breaks{"never": func(t *store.Task) { t.IfFinished = "never" }}},
}

// badRecurring are badTasks that recur. The test of package recurrence has more expressions and zones.
var badRecurring = []badTask{
	{"cron", "5 fields", breaks{"none": func(t *store.Task) { t.Recurrence.Cron = "" }}},
	{"cron", "must be able to fire", breaks{"30 February": func(t *store.Task) { t.Recurrence.Cron = "0 0 30 2 *" }}},
	{"cron", "1 to 256 printable ASCII", breaks{
		"a tab":                   func(t *store.Task) { t.Recurrence.Cron = "0\t9 * * *" },
		"a newline at its end":    func(t *store.Task) { t.Recurrence.Cron = "0 9 * * *\n" },
		"a space of another kind": func(t *store.Task) { t.Recurrence.Cron = "0\u00a09 * * *" },
		"257 characters":          func(t *store.Task) { t.Recurrence.Cron = "0 9 * * *" + strings.Repeat(" ", 248) },
	}},
	{"time_zone", "IANA zone", breaks{"none": func(t *store.Task) { t.Recurrence.TimeZone = "Europe/Atlantis" }}},
	{"overlap", "skip, allow or cancel_running", breaks{"queue": func(t *store.Task) { t.Recurrence.Overlap = "queue" }}},
	{"catch_up", "latest, all or none", breaks{"some": func(t *store.Task) { t.Recurrence.CatchUp = "some" }}},
	{"catch_up_paused", "latest, all or none", breaks{
		"capitals": func(t *store.Task) { t.Recurrence.CatchUpPaused = "LATEST" },
	}},
	{"catch_up_limit", "between 1 and 10000", breaks{
		"-1":    func(t *store.Task) { t.Recurrence.CatchUpLimit = -1 },
		"10001": func(t *store.Task) { t.Recurrence.CatchUpLimit = store.MaxCatchUpLimit + 1 },
	}},
	{"max_occurrences", "between 1 and 1000000", breaks{
		"-1":             func(t *store.Task) { t.Recurrence.MaxOccurrences = -1 },
		"over a million": func(t *store.Task) { t.Recurrence.MaxOccurrences = 1000001 },
		"over 32 bits":   func(t *store.Task) { t.Recurrence.MaxOccurrences = math.MaxInt },
	}},
	{"ends_at", "years 1 to 9999", breaks{
		"year 10000":     func(t *store.Task) { t.Recurrence.EndsAt = year(10000) },
		"before our era": func(t *store.Task) { t.Recurrence.EndsAt = year(-1) },
	}},
	{"ends_at", "not be before scheduled_at", breaks{
		"before it begins": func(t *store.Task) { t.Recurrence.EndsAt = t.At.Add(-time.Microsecond) },
	}},
	{"if_running", "be empty for a recurring task", breaks{"again": func(t *store.Task) { t.IfRunning = store.Again }}},
	{"id", "at most 480 bytes", breaks{
		"481 bytes":                 func(t *store.Task) { t.ID = strings.Repeat("x", 481) },
		"161 characters of 3 bytes": func(t *store.Task) { t.ID = strings.Repeat("€", 161) },
		"a key":                     func(t *store.Task) { t.ID, t.Payload = "", counted{key: strings.Repeat("k", 471)} },
	}},
	{"id", "be Keyed", breaks{"no id and no key": func(t *store.Task) { t.ID, t.Payload = "", plain{} }}},
	{"id", "TaskKey that is not empty", breaks{
		"an empty key": func(t *store.Task) { t.ID, t.Payload = "", counted{} },
	}},
	{"jitter", "between 1µs and 24h", breaks{
		"below 0":    func(t *store.Task) { t.Jitter = -1 },
		"below a µs": func(t *store.Task) { t.Jitter = time.Microsecond - 1 },
		"over a day": func(t *store.Task) { t.Jitter = store.MaxJitter + 1 },
	}},
	{"retention", "between 1µs and 100 years", breaks{
		"below 0":        func(t *store.Task) { t.Retention = -time.Hour },
		"below a µs":     func(t *store.Task) { t.Retention = 1 },
		"over 100 years": func(t *store.Task) { t.Retention = store.MaxRetention + 1 },
	}},
}

// sized is JSON that Postgres writes in so many bytes.
func sized(bytes int) store.JSON {
	const around = `{"s": "", "type": "TEST"}`
	return store.JSON(`{"type":"TEST","s":"` + strings.Repeat("x", bytes-len(around)) + `"}`)
}

// eachBad calls do with each of badTasks and badRecurring.
func eachBad(do func(name string, good, bad store.Task, field, rule string)) {
	each := func(all []badTask, of func(id string) store.Task) {
		for _, one := range all {
			for name, change := range one.changes {
				task := of("one")
				change(&task)
				do(one.field+": "+name, of("good"), task, one.field, one.rule)
			}
		}
	}
	each(badTasks, base)
	each(badRecurring, recurs)
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
	ids := map[string]func(id string) (any, error){
		"Reschedule": func(id string) (any, error) { return b.Tasks.Reschedule(b.Ctx, db, id, far(0)) },
		"Cancel":     func(id string) (any, error) { return b.Tasks.Cancel(b.Ctx, db, id) },
		"Pause":      func(id string) (any, error) { return b.Tasks.Pause(b.Ctx, db, id) },
		"Resume":     func(id string) (any, error) { return b.Tasks.Resume(b.Ctx, db, id) },
		"RunNow":     func(id string) (any, error) { return b.Tasks.RunNow(b.Ctx, db, id) },
		"Retry":      func(id string) (any, error) { return b.Tasks.Retry(b.Ctx, db, id) },
		"Archive":    func(id string) (any, error) { return b.Tasks.Archive(b.Ctx, db, id, "") },
		"Delete":     func(id string) (any, error) { return b.Tasks.Delete(b.Ctx, db, id) },
		"Get":        func(id string) (any, error) { return b.Tasks.Get(b.Ctx, db, id) },
		"History":    func(id string) (any, error) { return b.Tasks.History(b.Ctx, db, id) },
	}
	for name, call := range ids {
		for _, id := range []string{"", strings.Repeat("x", 513), "a\x00", "a\u009f", "\xff"} {
			if _, err := call(id); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "id must be") {
				t.Errorf("%s(%.10q): %v", name, id, err)
			}
		}
	}
	for what, call := range map[string]func() (any, error){
		"scheduled_at must be given": func() (any, error) { return b.Tasks.Reschedule(b.Ctx, db, "one", time.Time{}) },
		"scheduled_at must be in the years": func() (any, error) {
			return b.Tasks.Reschedule(b.Ctx, db, "one", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		},
		"note must be UTF-8 without NUL": func() (any, error) { return b.Tasks.Archive(b.Ctx, db, "one", "a\x00b") },
		"entity must be 1 to 512":        func() (any, error) { return b.Tasks.Sync(b.Ctx, db, "") },
		"entity must be at most 512":     func() (any, error) { return b.Tasks.Sync(b.Ctx, db, "\x01") },
		"service must be": func() (any, error) {
			return store.New(store.Config{Service: "\n"}).Cancel(b.Ctx, db, "one")
		},
		"schema \"Bad\" must be 1 to 46 of a-z": func() (any, error) {
			return store.New(store.Config{Schema: "Bad"}).Get(b.Ctx, db, "one")
		},
		"schema \"a;b\" must be 1 to 46 of a-z": func() (any, error) {
			return store.New(store.Config{Schema: "a;b"}).Schedule(b.Ctx, db, base("one"))
		},
		"must be 1 to 46 of a-z, 0-9 and _, not starting": func() (any, error) {
			return inspect.New(store.Config{Schema: strings.Repeat("a", 47)}).List(b.Ctx, db, inspect.Filter{})
		},
	} {
		_, err := call()
		b.wantInvalid(err, what)
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
