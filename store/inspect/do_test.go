package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

// do applies a verb to the tasks that a filter selects.
func (b *bench) do(action inspect.Action, filter inspect.Filter) []store.Receipt {
	b.Helper()
	done, err := b.Inspector.Do(b.Ctx, b.Pool, action, inspect.Targets{Filter: &filter})
	b.Check(err)
	return done.Receipts
}

// Each verb on a task of each status answers what the table says, changes the task exactly if it says so, and comes to
// the same for one task, for several, and by a filter.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for _, rule := range inspect.Verbs() {
		for _, by := range []string{"one id", "several ids", "a filter", "what was seen"} {
			t.Run(string(rule.Verb)+" by "+by, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				var ids, want []string
				before := map[string]int{} // lines of history
				for _, status := range store.Statuses() {
					id := string(status)
					b.Make(id, id)
					ids, before[id] = append(ids, id), len(b.Lines(id))
					want = append(want, id+" "+string(rule.EffectOn(status).Outcome))
				}
				want = append(want, "nobody absent")
				all := inspect.Filter{Statuses: store.Statuses(), Archived: new(false)}
				var on []inspect.Targets
				switch by {
				case "several ids":
					on = []inspect.Targets{{IDs: append(ids, "nobody")}}
				case "one id":
					for _, id := range append(ids, "nobody") {
						on = append(on, inspect.Targets{IDs: []string{id}})
					}
				case "a filter":
					on = []inspect.Targets{{Filter: &all}}
				default:
					names, _, _, err := b.Inspector.Choose(b.Ctx, b.Pool, rule.Verb, all)
					b.Check(err)
					on = []inspect.Targets{{Seen: append(names, inspect.Name{ID: "nobody", Revision: 1})}}
				}
				var got []string
				for _, targets := range on {
					done, err := b.Inspector.Do(b.Ctx, b.Pool, inspect.Action{Verb: rule.Verb}, targets)
					b.Check(err)
					got = append(got, outcomes(done.Receipts)...)
					for _, receipt := range done.Receipts {
						row := b.Get(receipt.ID)
						if row != nil && row.Revision != receipt.Revision {
							t.Errorf("%s has revision %d, not %d", receipt.ID, row.Revision, receipt.Revision)
						}
						wrote := len(b.Lines(receipt.ID)) > before[receipt.ID]
						if wrote != (inspect.Effect{Outcome: receipt.Outcome}).Writes() {
							t.Errorf("%s: %s, and it has changed: %t", receipt.ID, receipt.Outcome, wrote)
						}
					}
				}
				if by == "a filter" || by == "what was seen" {
					want = want[:len(want)-1]
				}
				same(b, "outcomes", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
			})
		}
	}
}

// A row that a node has, or that is archived or recurs, is told as what the verb does to it.
func TestEffectsOnATask(t *testing.T) {
	t.Parallel()
	for _, rule := range inspect.Verbs() {
		if slices.Contains(rule.Answers(), store.Running) != (rule.First != "") {
			t.Errorf("%s: a claimed task needs %q first", rule.Verb, rule.First)
		}
	}
	now, fence, cron := time.Now(), int64(1), "@daily"
	for want, c := range map[string]struct {
		verb inspect.Verb
		row  store.Row
	}{
		"is claimed by a node":         {inspect.Delete, store.Row{Status: store.StatusQueued, Fence: &fence}},
		"is archived already":          {inspect.Archive, store.Row{Status: store.StatusFailed, ArchivedAt: &now}},
		"gets one more occurrence":     {inspect.RunNow, store.Row{Status: store.StatusPaused, Cron: &cron}},
		"becomes CANCELLED, and does":  {inspect.Cancel, store.Row{Status: store.StatusPaused}},
		"has ended, and stays as it":   {inspect.Cancel, store.Row{Status: store.StatusFailed, Cron: &cron}},
		"is no dead letter, and stays": {inspect.Retry, store.Row{Status: store.StatusCancelled}},
	} {
		rule, _ := c.verb.Rule()
		if got := rule.EffectOnTask(c.row).Text; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", c.verb, got, want)
		}
	}
}

// By a filter a verb takes the first tasks, up to the limit, of the statuses for which it is, and says that there are
// more. A dry call changes nothing.
func TestDoByAFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 5 {
		b.Schedule(base(fmt.Sprint(i)))
	}
	b.Make("FAILED", "FAILED")
	filter := inspect.Filter{Entity: "event:1", Limit: 3}
	on := inspect.Targets{Filter: &filter, Dry: true}
	cancel := inspect.Action{Verb: inspect.Cancel}
	done, err := b.Inspector.Do(b.Ctx, b.Pool, cancel, on)
	if err != nil || len(done.Chosen) != 3 || !done.More || done.Receipts != nil || b.Get("0").Status != "QUEUED" {
		t.Errorf("dry: %+v, %v", done, err)
	}
	on.Dry, on.Except = false, func(name inspect.Name) bool { return name.ID == "1" }
	done, err = b.Inspector.Do(b.Ctx, b.Pool, cancel, on)
	b.Check(err)
	same(b, "the first", strings.Join(outcomes(done.Receipts), ", "), "0 cancelled, 2 cancelled")
	on.Except = nil
	done, err = b.Inspector.Do(b.Ctx, b.Pool, cancel, on)
	b.Check(err)
	same(b, "the rest", strings.Join(outcomes(done.Receipts), ", "), "1 cancelled, 3 cancelled, 4 cancelled")
	same(b, "more", done.More, false)
	done, err = b.Inspector.Do(b.Ctx, b.Pool, cancel, on)
	if err != nil || len(done.Receipts)+len(done.Chosen) > 0 || b.Get("FAILED").Status != "FAILED" {
		t.Errorf("the end: %+v, %v", done, err)
	}
}

func TestPauseUntil(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	done, err := b.Inspector.Do(b.Ctx, b.Pool, inspect.Action{Verb: inspect.Pause, Until: far(1)},
		inspect.Targets{IDs: []string{"one"}})
	b.Check(err)
	row := b.Get("one")
	if strings.Join(outcomes(done.Receipts), ", ") != "one paused" || row.PausedUntil == nil ||
		!row.PausedUntil.Equal(far(1)) {
		t.Errorf("%s, %s", strings.Join(outcomes(done.Receipts), ", "), pretty(row))
	}
	same(b, "history", b.Lines("one"), []string{"schedule created " + service, "pause paused " + service})
}

// Each is due in its turn, in the order of the ids that were given, and is otherwise what it was.
func TestRetryOverATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	given := []string{"d", "b", "waits", "a", "c"}
	for i, id := range []string{"a", "b", "c", "d"} {
		b.Schedule(store.Task{ID: id, Payload: payload(i), At: far(0), Priority: i, Expiration: time.Hour})
	}
	b.Schedule(base("waits"))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id <> 'waits'`)
	const asked = `SELECT string_agg(id || priority || asked_revision || scheduled_at, ' ' ORDER BY id)
		FROM tasktable.scheduled_tasks`
	before, from := testbench.One[string](b.Bench, b.Pool, asked), b.Now()
	action := inspect.Action{Verb: inspect.Retry, Over: 50 * time.Minute, After: time.Hour}
	done, err := b.Inspector.Do(b.Ctx, b.Pool, action,
		inspect.Targets{IDs: given, Filter: new(inspect.DeadLetters())})
	b.Check(err)
	same(b, "outcomes", strings.Join(outcomes(done.Receipts), ", "), "a queued, b queued, c queued, d queued")
	took := b.Now().Sub(from)
	for place, id := range given {
		row := b.Get(id)
		if id == "waits" {
			same(b, "what is no dead letter", row.NextAttemptAt.UTC(), far(0))
			continue
		}
		late := row.NextAttemptAt.Sub(from) - time.Hour - time.Duration(place)*10*time.Minute
		if row.Status != store.StatusQueued || late < 0 || late > took {
			t.Errorf("%s is due %s after its turn: %s", id, late, pretty(row))
		}
	}
	same(b, "priorities, times and idempotency keys", testbench.One[string](b.Bench, b.Pool, asked), before)
}

func TestDoRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("FAILED", "FAILED")
	ids := inspect.Targets{IDs: []string{"FAILED"}}
	year10000 := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, c := range map[string]struct {
		action inspect.Action
		on     inspect.Targets
	}{
		"over must be from 0 to 24h0m0s":                                        {inspect.Action{Verb: inspect.Retry, Over: -1}, ids},
		"over must be from 0 to 24h0m0s, got 24h0m0.000000001s":                 {inspect.Action{Verb: inspect.Retry, Over: inspect.MaxOver + 1}, ids},
		"after must be from 0 to 24h0m0s, together with over":                   {inspect.Action{Verb: inspect.Retry, Over: inspect.MaxOver, After: 1}, ids},
		"over is for retry alone, got archive":                                  {inspect.Action{Verb: inspect.Archive, Over: 1}, ids},
		"verb must be retry, resume, run_now, archive, pause, cancel or delete": {inspect.Action{Verb: "erase"}, ids},
		"note must be UTF-8":                                                    {inspect.Action{Verb: inspect.Archive, Note: "\xff"}, ids},
		"note must be at most 4096":                                             {inspect.Action{Verb: inspect.Archive, Note: strings.Repeat("x", 4097)}, ids},
		"until must be in the years":                                            {inspect.Action{Verb: inspect.Pause, Until: year10000}, ids},
		"id must be 1 to 512":                                                   {inspect.Action{Verb: inspect.Cancel}, inspect.Targets{IDs: []string{"FAILED", ""}}},
		"status must be one or several of QUEUED":                               {inspect.Action{Verb: inspect.Cancel}, inspect.Targets{IDs: ids.IDs, Filter: &inspect.Filter{Statuses: []store.Status{"queued"}}}},
	} {
		done, err := b.Inspector.Do(b.Ctx, noDB(b), c.action, c.on)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) || len(done.Receipts) > 0 {
			t.Errorf("%v, %v does not say %s", done, err, want)
		}
	}
	if done, err := b.Inspector.Do(b.Ctx, noDB(b), inspect.Action{Verb: inspect.Cancel}, inspect.Targets{}); err != nil ||
		len(done.Receipts) > 0 {
		t.Errorf("of no ids: %v, %v", done, err)
	}
	for _, delay := range []string{"-1 second", "24 hours 1 second", "2 days"} {
		_, err := b.Pool.Exec(b.Ctx, `SELECT tasktable.retry('FAILED', delay => $1::text::interval)`, delay)
		if err == nil || !strings.Contains(err.Error(), "delay of retry must be from 0 to 24 hours") {
			t.Errorf("%s: %v", delay, err)
		}
	}
	if row := b.Get("FAILED"); row.Status != store.StatusFailed {
		t.Errorf("changed: %s", pretty(row))
	}
}

// What an open transaction makes of a task decides, not what it was when it was chosen.
func TestDoLeavesAloneWhatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"filter", "seen"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, id := range []string{"edited", "kept"} {
				b.Make(id, "COMPLETED")
			}
			on := inspect.Targets{
				IDs: []string{"edited", "kept"}, Filter: &inspect.Filter{Statuses: []store.Status{"COMPLETED"}},
			}
			if by == "seen" {
				names, err := b.Inspector.Names(b.Ctx, b.Pool, inspect.Filter{})
				b.Check(err)
				on = inspect.Targets{Seen: names}
			}
			deleteMeanwhile(b, on)
		})
	}
}

func deleteMeanwhile(b *bench, on inspect.Targets) {
	b.Helper()
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT tasktable.run_now('edited')`)
	type answer struct {
		receipts []store.Receipt
		err      error
	}
	answered := make(chan answer, 1)
	conn, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig)
	b.Check(err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	go func() {
		done, err := b.Inspector.Do(b.Ctx, conn, inspect.Action{Verb: inspect.Delete}, on)
		answered <- answer{done.Receipts, err}
	}()
	for waits := false; !waits; b.Check(b.Ctx.Err()) {
		waits = one[bool](b, b.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)
			FROM pg_sleep(0.01)`, int(conn.PgConn().PID()))
	}
	b.Check(tx.Commit(b.Ctx))
	got := <-answered
	b.Check(got.err)
	if strings.Join(outcomes(got.receipts), ", ") != "kept deleted" {
		b.Errorf("got %s", strings.Join(outcomes(got.receipts), ", "))
	}
	if row := b.Get("edited"); row == nil || row.Status != store.StatusQueued {
		b.Errorf("edited is %s", pretty(row))
	}
}
