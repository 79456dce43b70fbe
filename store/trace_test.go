package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/store"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// within is a context in a span of that number, which is as good as any to those who do not end it; of 0 it is
// one without a span.
func within(ctx context.Context, n byte, flags trace.TraceFlags, state string) context.Context {
	if n == 0 {
		return ctx
	}
	id, err := trace.TraceIDFromHex(traceID)
	if err != nil {
		panic(err)
	}
	parsed, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID{n, 1}, TraceFlags: flags, TraceState: parsed,
	}))
}

// traceOf is what the column says of the span of that number.
func traceOf(n byte) string { return fmt.Sprintf("00-%s-%02x01000000000000-01", traceID, n) }

func TestTraceOf(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	long := "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("y", 250)
	fits := "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("y", 512-55-1-252-1-2)
	for name, test := range map[string]struct {
		ctx  context.Context
		want string
	}{
		"no span":     {ctx, ""},
		"a span":      {within(ctx, 7, trace.FlagsSampled, ""), traceOf(7)},
		"not sampled": {within(ctx, 7, 0, ""), ""},
		"random": {
			within(ctx, 7, trace.FlagsSampled|trace.FlagsRandom, ""), strings.TrimSuffix(traceOf(7), "1") + "3",
		},
		"a flag of tomorrow": {within(ctx, 7, trace.FlagsSampled|0x10, ""), traceOf(7)},
		"a state": {
			within(ctx, 7, trace.FlagsSampled, "vendor=some value,other=1"), traceOf(7) + " vendor=some value,other=1",
		},
		"the longest state": {within(ctx, 7, trace.FlagsSampled, fits), traceOf(7) + " " + fits},
		"too long a state":  {within(ctx, 7, trace.FlagsSampled, long), traceOf(7)},
		"sampled, no ids": {
			trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceFlags: 1})), "",
		},
	} {
		got := store.TraceOf(test.ctx)
		if got != test.want || len(got) > 512 {
			t.Errorf("%s: %d bytes, %q, want %q", name, len(got), got, test.want)
		}
		if span := store.SpanOf(got); got == "" && span.IsValid() ||
			got != "" && store.TraceOf(trace.ContextWithSpanContext(ctx, span)) != got {
			t.Errorf("%s: read back as %+v", name, span)
		}
	}
	for _, text := range []string{
		"", " ", "hello", parent[:54], parent + "-00", "ff" + parent[2:], strings.Repeat("0", 55),
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01",
	} {
		if span := store.SpanOf(text); span.IsValid() {
			t.Errorf("%q is read as %+v", text, span)
		}
	}
	if span := store.SpanOf(parent + " no state at all=,"); !span.IsValid() || !span.IsRemote() ||
		span.TraceState().Len() != 0 {
		t.Errorf("with a state that cannot be read: %+v", span)
	}
}

func TestWithoutASpanNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _ = store.TraceOf(ctx); _ = store.SpanOf("") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The span is that of the writing. What writes nothing keeps the one that is there, and a span is no edit.
func TestScheduleKeepsTheSpan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	later := base("a")
	later.At = far(5)
	for i, step := range []struct {
		n       byte // of the span; 0: none
		task    store.Task
		outcome store.Outcome
		want    string
	}{
		{1, base("a"), store.Created, traceOf(1)},
		{2, base("a"), store.Unchanged, traceOf(1)},
		{0, base("a"), store.Unchanged, traceOf(1)},
		{3, later, store.Rescheduled, traceOf(3)},
		{0, base("a"), store.Rescheduled, ""},
		{4, later, store.Rescheduled, traceOf(4)},
	} {
		before := b.state("a")
		receipt, err := b.Tasks.Schedule(within(b.Ctx, step.n, trace.FlagsSampled, ""), b.Pool, step.task)
		b.Check(err)
		after := b.state("a")
		got := ""
		if after.Row.Trace != nil {
			got = *after.Row.Trace
		}
		if receipt.Outcome != step.outcome || got != step.want {
			t.Errorf("step %d: %s with %q, want %s with %q", i+1, receipt.Outcome, got, step.outcome, step.want)
		}
		if step.outcome == store.Unchanged {
			same(b, "what was unchanged", after, before)
		}
	}

	before := b.state("a")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET trace = $1 WHERE id = 'a'`, parent)
	after := b.state("a")
	before.Row.Trace, before.Version = pointerTo(parent), after.Version
	same(b, "after a change of the trace alone", after, before)

	// The verbs leave it: the link is to where the content and the time come from.
	for _, verb := range []func() (store.Receipt, error){
		func() (store.Receipt, error) { return b.Tasks.Pause(b.Ctx, b.Pool, "a") },
		func() (store.Receipt, error) { return b.Tasks.Resume(b.Ctx, b.Pool, "a") },
		func() (store.Receipt, error) { return b.Tasks.Reschedule(b.Ctx, b.Pool, "a", far(7)) },
		func() (store.Receipt, error) { return b.Tasks.RunNow(b.Ctx, b.Pool, "a") },
		func() (store.Receipt, error) { return b.Tasks.Cancel(b.Ctx, b.Pool, "a") },
	} {
		receipt, err := verb()
		b.Check(err)
		if row := b.Get("a"); row.Trace == nil || *row.Trace != parent {
			t.Errorf("%s: trace %s", receipt.Outcome, pretty(row.Trace))
		}
	}
	for _, change := range b.Changes("a") {
		if strings.Contains(string(change.Old)+string(change.New), traceID) {
			t.Errorf("a line of changes has the trace: %s", pretty(change))
		}
	}
}

// One statement or many, a few tasks or the bulk way, recurring ones and what is forked of them.
func TestEachWayOfSchedulingKeepsTheSpan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Ctx = within(b.Ctx, 9, trace.FlagsSampled, "")
	var many []store.Task
	for i := range 25 {
		many = append(many, base(fmt.Sprintf("many %02d", i)))
	}
	b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, many))
	b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{base("few 1"), base("few 2")}))
	b.succeeds(b.Tasks.Sync(b.Ctx, b.Pool, "event:7", store.Task{ID: "synced", Payload: payload(1), At: far(0)}))
	b.Schedule(recurs("daily"))
	b.succeeds(b.Tasks.RunNow(b.Ctx, b.Pool, "daily"))
	b.Exec(b.Pool, `SELECT tasktable.fork_occurrence('daily', '2100-01-01 09:00Z')`)
	for name, sql := range map[string]string{
		"by name":   `schedule('{"type":"TEST"}', id => 'by name', trace => '` + traceOf(9) + `')`,
		"recurring": `schedule_recurring('{"type":"TEST"}', '@daily', 'recurring', trace => '` + traceOf(9) + `')`,
		"in an object": `schedule_many('[{"id": "in an object", "payload": {"type": "TEST"}, "trace": "` + traceOf(9) +
			`"}]')`,
	} {
		b.Exec(b.Pool, `SELECT * FROM tasktable.`+sql)
		if b.Get(name) == nil {
			t.Errorf("%s: not scheduled", name)
		}
	}
	others := one[string](b, b.Pool, `SELECT coalesce(string_agg(id || ': ' || coalesce(trace, 'none'), ', '), '')
		FROM tasktable.scheduled_tasks WHERE trace IS DISTINCT FROM $1`, traceOf(9))
	if n := one[int](b, b.Pool, `SELECT count(*)::int FROM tasktable.scheduled_tasks`); n != 25+2+1+3+3 ||
		others != "" {
		t.Errorf("%d tasks; with another trace: %s", n, others)
	}
}

func TestTracesThatAreNone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const rule = `"trace must be a W3C traceparent, at most 512 bytes in all"`
	for _, wrong := range []string{
		"", "hello", parent[:54], parent + " ", parent + "x", parent + "-00", "01" + parent[2:],
		strings.ToUpper(parent), parent[:53] + "ff", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01",
		"00-" + traceID + "-0000000000000000-01", parent + " a=1\n", parent + " a=ü",
		parent + " " + strings.Repeat("x", 457),
	} {
		b.refused(`SELECT tasktable.schedule('{"type":"TEST"}', trace => $1)`, rule, wrong)
	}
	for i, right := range []string{
		parent, parent[:53] + "00", parent + " a=1,b=2", parent + " " + strings.Repeat("x", 456),
	} {
		b.InTx(func(tx pgx.Tx) {
			b.Exec(tx, `SELECT tasktable.schedule('{"type":"TEST"}', id => $1,
				trace => $2)`, fmt.Sprint("right ", i), right)
		})
	}
}
