package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		scope store.Scope
		has   string // of the queues default, mail and types TEST, A:B
	}{
		"all":           {store.Everything(), "default TEST, default A:B, mail TEST, mail A:B"},
		"queue:mail":    {store.Queue("mail"), "mail TEST, mail A:B"},
		"queue:default": {store.Queue("default"), "default TEST, default A:B"},
		"type:TEST":     {store.Type("TEST"), "default TEST, mail TEST"},
		"type:A:B":      {store.Type("A:B"), "default A:B, mail A:B"},
		"type:mail":     {store.Type("mail"), ""},
		"queue:test":    {store.Queue("test"), ""},
	} {
		got, err := store.ParseScope(text)
		if err != nil || got != c.scope || got.String() != text || got.Check() != nil {
			t.Errorf("%s: %q, %v, %v", text, got, err, got.Check())
		}
		var has []string
		for _, queue := range []string{"default", "mail"} {
			for _, taskType := range []string{"TEST", "A:B"} {
				if got.Has(queue, taskType) {
					has = append(has, queue+" "+taskType)
				}
			}
		}
		if strings.Join(has, ", ") != c.has {
			t.Errorf("%s has %v", text, has)
		}
	}
	b := benchOn(t, nil)
	for rule, texts := range map[string][]string{
		"all, queue:NAME or type:NAME": {"", "All", "all:", "all:mail", "mail", "entity:event:1", " all", "\x00"},
		"queue must be 1 to 64":        {"queue", "queue:", "queue:Mail", "queue:mail,default"},
		"type must be 2 to 127":        {"type", "type:", "type:A", "type:A B", "type:AB\n"},
	} {
		for _, text := range texts {
			_, err := store.ParseScope(text)
			b.wantInvalid(err, rule)
		}
	}
	if err := (store.Scope{}).Check(); !errors.Is(err, store.ErrInvalid) || (store.Scope{}).Has("default", "TEST") {
		t.Errorf("the zero Scope: %v", err)
	}
}

// pauseLine is a line of pauses, with what says how it ended.
type pauseLine struct {
	store.Pause
	ResumedBy *string
	Number    int64
}

// pauseLines are all lines, also those that are over.
func (b *bench) pauseLines() []pauseLine {
	b.Helper()
	rows, err := b.Pool.Query(b.Ctx, `SELECT scope, name, paused_at, paused_by, ends_at, reason, resumed_by, number
		FROM tasktable.pauses ORDER BY number`)
	b.Check(err)
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[pauseLine])
	b.Check(err)
	for i, line := range lines {
		lines[i].Pause = utcPause(line.Pause)
	}
	return lines
}

func utcPause(pause store.Pause) store.Pause {
	pause.PausedAt = pause.PausedAt.UTC()
	if pause.EndsAt != nil {
		pause.EndsAt = pointerTo(pause.EndsAt.UTC())
	}
	return pause
}

// paused are the scopes that the store lists.
func (b *bench) paused() []store.Pause {
	b.Helper()
	found, err := b.Tasks.Pauses(b.Ctx, b.Pool)
	b.Check(err)
	var pauses []store.Pause
	for _, pause := range found {
		pauses = append(pauses, utcPause(pause))
	}
	return pauses
}

// A line a pause: another time or reason is written to it, the same again is not, and a resume ends it. It stays,
// for those who ask.
func TestPauseAndResumeOfScopes(t *testing.T) {
	t.Parallel()
	for _, scope := range []store.Scope{store.Everything(), store.Queue("mail"), store.Type("TEST")} {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			kind, name, _ := strings.Cut(scope.String(), ":")
			line := pauseLine{Pause: store.Pause{Scope: kind, Name: name, PausedBy: service}}
			var over []pauseLine
			pause := func(until time.Time, reason string, want store.Outcome) {
				b.Helper()
				got, err := b.Tasks.PauseScope(b.Ctx, b.Pool, scope, until, reason)
				line.EndsAt, line.Reason = orNone(until), orNone(reason)
				lines := b.pauseLines()
				if err != nil || got != want || len(lines) == 0 {
					b.Fatalf("pause: %s, %v", got, err)
				}
				same(b, "lines", lines, append(over[:len(over):len(over)], line))
				same(b, "listed", b.paused(), []store.Pause{line.Pause})
			}
			resume := func(want store.Outcome) {
				b.Helper()
				if got, err := b.Tasks.ResumeScope(b.Ctx, b.Pool, scope); err != nil || got != want {
					b.Errorf("resume: %s, %v", got, err)
				}
				same(b, "listed", b.paused(), nil)
			}
			begin := func(until time.Time, reason string) {
				b.Helper()
				from := b.Now()
				b.succeeds(b.Tasks.PauseScope(b.Ctx, b.Pool, scope, until, reason))
				lines := b.pauseLines()
				last := lines[len(lines)-1]
				if line.PausedAt, line.Number = last.PausedAt, last.Number; line.PausedAt.Before(from) ||
					line.PausedAt.After(b.Now()) {
					b.Errorf("paused at %v", line.PausedAt)
				}
				pause(until, reason, store.Unchanged)
			}
			resume(store.Unchanged)
			begin(time.Time{}, "")
			pause(far(0), "", store.Paused)
			pause(far(0), "", store.Unchanged)
			pause(far(0), "the mail server is down\nsince nine", store.Paused)
			pause(far(1), "the mail server is down\nsince nine", store.Paused)
			pause(time.Time{}, "", store.Paused)

			from := b.Now()
			resume(store.Queued)
			ended := b.pauseLines()[0]
			if ended.EndsAt == nil || ended.EndsAt.Before(from) || ended.EndsAt.After(b.Now()) {
				b.Errorf("ended at %v", ended.EndsAt)
			}
			line.EndsAt, line.ResumedBy = ended.EndsAt, pointerTo(service)
			over = append(over, line)
			same(b, "lines", b.pauseLines(), over)
			resume(store.Unchanged)
			same(b, "lines", b.pauseLines(), over)

			line.ResumedBy = nil
			begin(far(0), "once more")
			resume(store.Queued)
			if lines := b.pauseLines(); len(lines) != 2 || lines[1].Number <= lines[0].Number ||
				*lines[1].ResumedBy != service {
				b.Errorf("after a second pause: %s", pretty(lines))
			}
		})
	}
}

// A pause until a time that has passed is over at once: it holds nothing up, and a later one has a line of its own.
func TestPauseOfAScopeUntilATimeThatHasPassed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, step := range []struct {
		until time.Time
		lines int
		holds bool
	}{{past(0), 1, false}, {past(0), 2, false}, {far(0), 3, true}, {past(1), 3, false}, {time.Time{}, 4, true}} {
		got, err := b.Tasks.PauseScope(b.Ctx, b.Pool, store.Everything(), step.until, "")
		if err != nil || got != store.Paused || len(b.pauseLines()) != step.lines ||
			(len(b.paused()) == 1) != step.holds {
			t.Errorf("step %d: %s, %v: %s", i, got, err, pretty(b.pauseLines()))
		}
	}
}

// Pauses of several scopes hold beside each other, and each is resumed by itself. What they hold up says so.
func TestPausesBesideEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, task := range map[string]store.Task{
		"default TEST": {Payload: payload(1)}, "mail TEST": {Payload: payload(1), Queue: "mail"},
		"default OTHER": {Payload: typed("OTHER")}, "mail OTHER": {Payload: typed("OTHER"), Queue: "mail"},
	} {
		task.ID, task.At = id, past(0)
		b.Schedule(task)
	}
	pause := func(scope store.Scope) func() (any, error) {
		return func() (any, error) { return b.Tasks.PauseScope(b.Ctx, b.Pool, scope, time.Time{}, "") }
	}
	resume := func(scope store.Scope) func() (any, error) {
		return func() (any, error) { return b.Tasks.ResumeScope(b.Ctx, b.Pool, scope) }
	}
	for i, step := range []struct {
		do           func() (any, error)
		listed, held string
	}{
		{func() (any, error) { return nil, nil }, "", ""},
		{pause(store.Type("TEST")), "type:TEST", "default TEST, mail TEST"},
		{pause(store.Queue("mail")), "queue:mail type:TEST", "default TEST, mail OTHER, mail TEST"},
		{pause(store.Queue("other")), "queue:mail queue:other type:TEST", "default TEST, mail OTHER, mail TEST"},
		// A type of a queue's name.
		{
			pause(store.Type("mail")), "queue:mail queue:other type:TEST type:mail",
			"default TEST, mail OTHER, mail TEST",
		},
		{resume(store.Type("TEST")), "queue:mail queue:other type:mail", "mail OTHER, mail TEST"},
		{
			pause(store.Everything()), "all: queue:mail queue:other type:mail",
			"default OTHER, default TEST, mail OTHER, mail TEST",
		},
		{
			resume(store.Queue("mail")), "all: queue:other type:mail",
			"default OTHER, default TEST, mail OTHER, mail TEST",
		},
		{resume(store.Everything()), "queue:other type:mail", ""},
	} {
		b.succeeds(step.do())
		var listed []string
		for _, pause := range b.paused() {
			listed = append(listed, pause.Scope+":"+pause.Name)
		}
		held := one[*string](b, b.Pool, `SELECT string_agg(id, ', ' ORDER BY id COLLATE "C") FROM tasktable.late_tasks
			WHERE is_paused`)
		if got := strings.Join(listed, " "); got != step.listed ||
			fmt.Sprint(orDefault(text(held), any(""))) != step.held {
			t.Errorf("step %d: %s; held up: %v", i, got, text(held))
		}
	}
	if waiting := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.late_tasks`); waiting != 4 {
		t.Errorf("%d tasks are late", waiting)
	}
}
