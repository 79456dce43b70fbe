package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// program is a version of a service: the recurring tasks that it declares.
type program struct {
	*Declarer
	b *bench
}

func (b *bench) program(service string, declared ...store.Task) program {
	return program{
		NewDeclarer(DeclarerConfig{
			Pool: b.Pool, Statements: b.Queries, Service: service, Log: enginetest.Logger(),
			Declaration: Declaration{Recurring: declared},
		}),
		b,
	}
}

// deploy starts nodes of the program; none of them looks yet.
func (p program) deploy(numbers ...int) {
	p.b.T.Helper()
	var declares *string
	if p.hash != "" {
		declares = &p.hash
	}
	for _, number := range numbers {
		p.b.Exec(`INSERT INTO tasktable.nodes (number, service, version, host, queues, types,
			declaration_hash) OVERRIDING SYSTEM VALUE VALUES ($1, $2, '', '', '{}', '{}', $3)`,
			number, p.config.Service, declares)
	}
}

func (b *bench) kill(numbers ...int) {
	b.T.Helper()
	b.Exec(`UPDATE tasktable.nodes SET dead_at = clock_timestamp() WHERE number = ANY ($1)`, numbers)
}

// looks has a node of the program look, as it does twice a minute.
func (p program) looks() {
	p.b.T.Helper()
	p.b.OK(p.runOnce(p.b.T.Context()))
}

// declared lists the recurring tasks: whose they are, how they are, when they fire, and how many lines
// their history has.
func (b *bench) declared(what string, want ...string) {
	b.T.Helper()
	rows, err := b.Pool.Query(b.T.Context(), `SELECT concat_ws(' ', t.id, t.declared_by, t.status, t.cron,
		(SELECT count(*) FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = t.id))
		FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL ORDER BY t.id COLLATE "C"`)
	b.OK(err)
	var got []string
	for rows.Next() {
		var line string
		b.OK(rows.Scan(&line))
		got = append(got, line)
	}
	b.OK(rows.Err())
	if !slices.Equal(got, want) {
		b.T.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func cron(id, expression string) store.Task {
	return store.Task{ID: id, Payload: job{Name: id}, Recurrence: &store.Recurrence{Cron: expression}}
}

// What is declared is scheduled; what is unchanged is not written to; what is changed is updated, without a fire;
// what is not declared any more is cancelled, and is queued again when it is declared again.
func TestDeclare(t *testing.T) {
	b := newBench(t)
	enginetest.Schedule(t, b.Pool, cron("scheduled", "@yearly"))
	first := b.program("events", cron("a", "@hourly"), cron("b", "@daily"))
	first.deploy(1, 2)
	first.looks()
	both := []string{"a events QUEUED @hourly 1", "b events QUEUED @daily 1", "scheduled QUEUED @yearly 1"}
	b.declared("declared", both...)
	first.looks()
	b.program("events", first.config.Recurring...).looks() // the other node
	b.declared("unchanged", both...)
	b.Fires(time.Now())

	second := b.program("events", cron("a", "@weekly"), cron("c", "@daily"))
	second.deploy(3)
	second.looks()
	b.declared(
		"changed", "a events QUEUED @weekly 2", "b CANCELLED @daily 2", "c events QUEUED @daily 1",
		"scheduled QUEUED @yearly 1",
	)
	b.Fires(time.Now())
	if rows, err := inspect.New(store.Config{}).List(t.Context(), b.Pool, inspect.Filter{}); err != nil ||
		len(rows) != 4 {
		t.Errorf("%d rows, %v: something has fired", len(rows), err)
	}
	third := b.program("events", cron("b", "@daily"))
	third.deploy(4)
	third.looks()
	b.declared(
		"again", "a CANCELLED @weekly 3", "b events QUEUED @daily 3", "c CANCELLED @daily 2",
		"scheduled QUEUED @yearly 1",
	)
}

// Of two versions side by side, the one that was seen last for the first time holds; the other does nothing, however
// often it looks, until the last node of the newer one is gone.
func TestDeclareSideBySide(t *testing.T) {
	b := newBench(t)
	older, newer := b.program("events", cron("a", "@hourly")), b.program(
		"events", cron("a", "@daily"), cron("b", "@daily"),
	)
	older.deploy(1)
	older.looks()
	newer.deploy(2)
	newer.looks()
	want := []string{"a events QUEUED @daily 2", "b events QUEUED @daily 1"}
	b.declared("the newer one", want...)
	older.deploy(3) // one of its nodes starts anew
	for range 3 {
		older.looks()
		newer.looks()
		b.program("events", older.config.Recurring...).looks() // that node's own look
	}
	b.declared("side by side", want...)
	b.kill(2)
	older.looks()
	b.declared("rolled back", "a events QUEUED @hourly 3", "b CANCELLED @daily 2")
	newer.looks() // a zombie
	newer.deploy(4)
	newer.looks()
	b.declared("rolled out again", "a events QUEUED @daily 4", "b events QUEUED @daily 3")
	older.looks()
	b.kill(1, 3)
	newer.looks()
	b.declared("alone", "a events QUEUED @daily 4", "b events QUEUED @daily 3")
	b.kill(4)
	older.looks()
	newer.looks()
	b.declared("nobody is left", "a events QUEUED @daily 4", "b events QUEUED @daily 3")
}

// A version that declares nothing has no say; one that declares an empty list cancels all.
func TestDeclareNothing(t *testing.T) {
	b := newBench(t)
	first := b.program("events", cron("a", "@hourly"))
	first.deploy(1)
	first.looks()
	silent := b.program("events")
	if silent.hash != "" {
		t.Errorf("nothing has the hash %q", silent.hash)
	}
	silent.deploy(2)
	first.looks()
	b.declared("beside one that says nothing", "a events QUEUED @hourly 1")
	b.kill(1)
	b.declared("alone", "a events QUEUED @hourly 1")
	none := b.program("events", []store.Task{}...) // not nil
	if none.hash == "" || none.hash == first.hash {
		t.Errorf("an empty list has the hash %q", none.hash)
	}
	none.deploy(3)
	none.looks()
	b.declared("one that declares none", "a CANCELLED @hourly 2")
	none.looks()
	b.declared("again", "a CANCELLED @hourly 2")
}

// Services do not touch each other's tasks.
func TestDeclareByTwoServices(t *testing.T) {
	b := newBench(t)
	events, users := b.program(
		"events", cron("a", "@hourly"), cron("b", "@hourly"),
	), b.program("users", cron("c", "@hourly"))
	events.deploy(1)
	users.deploy(2)
	events.looks()
	users.looks()
	b.declared("both", "a events QUEUED @hourly 1", "b events QUEUED @hourly 1", "c users QUEUED @hourly 1")
	fewer := b.program("events", cron("a", "@hourly"))
	fewer.deploy(3)
	fewer.looks()
	users.looks()
	b.declared("one changed", "a events QUEUED @hourly 1", "b CANCELLED @hourly 2", "c users QUEUED @hourly 1")
}

// What an operator did to a declared task stays: cancelled as well as paused, whatever versions come.
func TestDeclareAfterAnOperator(t *testing.T) {
	b := newBench(t)
	first := b.program(
		"events", cron("cancelled", "@hourly"), cron("paused", "@hourly"), cron("deleted", "@hourly"),
		cron("ended", "@hourly"),
	)
	first.deploy(1)
	first.looks()
	for id, verb := range map[string]func() (store.Receipt, error){
		"cancelled": func() (store.Receipt, error) { return enginetest.Tasks.Cancel(t.Context(), b.Pool, "cancelled") },
		"paused":    func() (store.Receipt, error) { return enginetest.Tasks.Pause(t.Context(), b.Pool, "paused") },
		"deleted":   func() (store.Receipt, error) { return enginetest.Tasks.Delete(t.Context(), b.Pool, "deleted") },
	} {
		if receipt, err := verb(); err != nil || string(receipt.Outcome) != id {
			t.Fatalf("%s: %+v, %v", id, receipt, err)
		}
	}
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(
			t.Context(),
			taskdb.EnterSQL+
				`; UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', next_attempt_at = NULL, `+
				`finished_at = now() WHERE id = 'ended'`,
		))
	})
	// A new node with the same set, which applies it.
	b.kill(1)
	same := b.program("events", first.config.Recurring...)
	same.deploy(2)
	same.looks()
	before := map[string]string{}
	for _, id := range []string{"cancelled", "paused", "ended"} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
		b.OK(err)
		before[id] = string(row.Status)
	}
	if fmt.Sprint(before) != "map[cancelled:CANCELLED ended:COMPLETED paused:PAUSED]" {
		t.Errorf("after a restart: %v", before)
	}
	if row, err := enginetest.Tasks.Get(t.Context(), b.Pool, "deleted"); err != nil ||
		row.Status != store.StatusQueued {
		t.Errorf("deleted, it is scheduled anew: %+v, %v", row, err)
	}
	// One that changes them all: the pause and the cancellation stay.
	changed := b.program(
		"events", cron("cancelled", "@daily"), cron("paused", "@daily"), cron("deleted", "@daily"),
		cron("ended", "@daily"),
	)
	changed.deploy(3)
	changed.looks()
	statuses := map[string]string{}
	for _, id := range []string{"cancelled", "paused", "deleted", "ended"} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
		b.OK(err)
		statuses[id] = fmt.Sprint(row.Status, " ", *row.Cron)
	}
	if got := fmt.Sprint(
		statuses,
	); got != "map[cancelled:CANCELLED @hourly deleted:QUEUED @daily ended:QUEUED @daily paused:PAUSED @daily]" {
		t.Errorf("after a change: %s", got)
	}
}

// renamedJob has the fields of a job.
type renamedJob enginetest.Job

func (renamedJob) TaskType() string { return "OTHER" }

func hashOf(declared []store.Task) string { return Declaration{Recurring: declared}.Hash() }

// The hash of a set tells sets apart, and nothing else.
func TestDeclares(t *testing.T) {
	t.Parallel()
	base := []store.Task{cron("a", "@hourly"), cron("b", "@daily")}
	same := []store.Task{cron("a", "@hourly"), cron("b", "@daily")}
	if hashOf(base) != hashOf(same) || hashOf(nil) != "" {
		t.Errorf("%q, %q, %q", hashOf(base), hashOf(same), hashOf(nil))
	}
	seen := map[string]string{hashOf(base): "the base"}
	for name, set := range map[string][]store.Task{
		"empty": {}, "fewer": base[:1], "another id": {cron("x", "@hourly"), base[1]},
		"another time": {cron("a", "@weekly"), base[1]},
		"another payload": {
			{ID: "a", Payload: job{Name: "x"}, Recurrence: &store.Recurrence{Cron: "@hourly"}}, base[1],
		},
		"a priority": {
			{ID: "a", Payload: job{Name: "a"}, Priority: 1, Recurrence: &store.Recurrence{Cron: "@hourly"}},
			base[1],
		},
		"a zone": {
			{
				ID: "a", Payload: job{Name: "a"},
				Recurrence: &store.Recurrence{Cron: "@hourly", TimeZone: "Europe/Berlin"},
			},
			base[1],
		},
		"another type": {{ID: "a", Payload: renamedJob{"a"}, Recurrence: &store.Recurrence{Cron: "@hourly"}}, base[1]},
	} {
		hash := hashOf(set)
		if seen[hash] != "" {
			t.Errorf("%s has the hash of %s", name, seen[hash])
		}
		seen[hash] = name
	}
}

// What the code declares recurs, also if a task that does not recur had the id before.
func TestDeclaredInThePlaceOfAPlainTask(t *testing.T) {
	b := newBench(t)
	enginetest.Schedule(t, b.Pool, store.Task{ID: "a", Payload: job{Name: "a"}})
	events := b.program("events", cron("a", "@hourly"))
	events.deploy(1)
	events.looks()
	b.declared("declared", "a events QUEUED @hourly 2")
}
