package store_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	charges := store.Limit{Name: "charges", Of: store.Type("CHARGE"), MaxRunning: 5}
	for _, step := range []struct {
		limit store.Limit
		want  store.Outcome
		line  string
	}{
		{charges, store.Created, "charges type CHARGE max 5 rate - in - burst -"},
		{charges, store.Unchanged, "charges type CHARGE max 5 rate - in - burst -"},
		{store.Limit{Name: "charges", Of: store.Queue("mail"), MaxRunning: 1}, store.Changed,
			"charges queue mail max 1 rate - in - burst -"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 5}, store.Changed,
			"charges all  max - rate 5 in 00:00:01 burst 1"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 100, Interval: time.Minute, Burst: 20}, store.Changed,
			"charges all  max - rate 100 in 00:01:00 burst 20"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 2000, Interval: time.Second}, store.Changed,
			"charges all  max - rate 2000 in 00:00:01 burst 200"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 7, Interval: 24 * time.Hour, MaxRunning: 1000000},
			store.Changed, "charges all  max 1000000 rate 7 in 24:00:00 burst 1"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 7, Interval: 24 * time.Hour, Per: store.PerGroup},
			store.Changed, "charges all  max - rate 7 in 24:00:00 burst 1"},
		{store.Limit{Name: "charges", Of: store.Everything(), Rate: 7, Interval: 24 * time.Hour, MaxRunning: 1000000},
			store.Changed, "charges all  max 1000000 rate 7 in 24:00:00 burst 1"},
	} {
		got, err := b.Tasks.SetLimit(t.Context(), b.Pool, step.limit)
		line := one[string](b, b.Pool, `SELECT concat_ws(' ', name, scope, scope_name, 'max', coalesce(max_running::text, '-'),
			'rate', coalesce(rate::text, '-'), 'in', coalesce(rate_interval::text, '-'), 'burst', coalesce(burst::text, '-'))
			FROM tasktable.limits`)
		if err != nil || got != step.want || line != step.line {
			t.Errorf("%+v: %s, %v, %q, want %s, %q", step.limit, got, err, line, step.want, step.line)
		}
	}
	limits, err := b.Tasks.Limits(t.Context(), b.Pool)
	if err != nil || len(limits) != 1 || *limits[0].Running != 0 || *limits[0].RateInterval != 24*time.Hour ||
		limits[0].Of() != store.Everything() || limits[0].NextStartAt.After(time.Now()) {
		t.Errorf("%+v, %v", limits, err)
	}
	for _, want := range []store.Outcome{store.Deleted, store.Absent} {
		if got, err := b.Tasks.RemoveLimit(t.Context(), b.Pool, "charges"); err != nil || got != want {
			t.Errorf("remove: %s, %v, want %s", got, err, want)
		}
	}
}

// A limit in order has a maximum of one, and is changed by in_order alone.
func TestLimitInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limit := store.Limit{Name: "a", Of: store.Type("TEST"), Per: store.PerTenant, MaxRunning: 1}
	for _, step := range []struct {
		inOrder bool
		most    int
		want    store.Outcome
	}{{false, 1, store.Created}, {true, 1, store.Changed}, {true, 0, store.Unchanged}, {false, 1, store.Changed}} {
		limit.InOrder, limit.MaxRunning = step.inOrder, step.most
		got, err := b.Tasks.SetLimit(t.Context(), b.Pool, limit)
		listed, listErr := b.Tasks.Limits(t.Context(), b.Pool)
		if err != nil || listErr != nil || got != step.want || listed[0].InOrder != step.inOrder || *listed[0].MaxRunning != 1 {
			t.Errorf("%+v: %s, %v, %+v, %v", step, got, err, listed, listErr)
		}
	}
	same(b, "by SQL", one[string](b, b.Pool,
		`SELECT tasktable.set_limit('b', type => 'TEST', per => 'tenant', in_order => true)`), "created")
	same(b, "its maximum", one[int](b, b.Pool, `SELECT max_running FROM tasktable.limits WHERE name = 'b'`), 1)
}

// Weights are listed, changed and taken away like the other fields.
func TestLimitWithWeights(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limit := store.Limit{Name: "a", Of: store.Type("TEST"), Per: store.PerTenant}
	for _, step := range []struct {
		weights store.Weights
		want    store.Outcome
	}{
		{store.Weights{"large": 3, `"odd" é`: 1000}, store.Created},
		{store.Weights{"large": 3, `"odd" é`: 1000}, store.Unchanged},
		{store.Weights{"large": 2}, store.Changed},
		{store.Weights{}, store.Changed},
		{nil, store.Unchanged},
	} {
		limit.Weights = step.weights
		got, err := b.Tasks.SetLimit(t.Context(), b.Pool, limit)
		listed, listErr := b.Tasks.Limits(t.Context(), b.Pool)
		if err != nil || listErr != nil || got != step.want || !maps.Equal(listed[0].Weights, step.weights) {
			t.Errorf("%+v: %s, %v, %+v, %v", step, got, err, listed, listErr)
		}
	}
	for i := range 10 {
		limit.Name = fmt.Sprint("many-", i)
		limit.Weights = store.Weights{}
		for j := range 1000 {
			limit.Weights[fmt.Sprint(j)] = 1
		}
		b.succeeds(b.Tasks.SetLimit(t.Context(), b.Pool, limit))
	}
	limit.Name, limit.Weights = "a", store.Weights{"large": 3}
	_, err := b.Tasks.SetLimit(t.Context(), b.Pool, limit)
	b.wantInvalid(err, "weights must have at most 10000 entries in all limits together")
}

// Starts by the former rate still count after a change. But nobody waits longer than for an empty bucket.
func TestAChangedRateKeepsItsTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const nextIn = `SELECT extract(epoch FROM next_start_at - clock_timestamp())::int FROM tasktable.limit_states()`
	set := func(limit store.Limit) {
		t.Helper()
		b.succeeds(b.Tasks.SetLimit(t.Context(), b.Pool, limit))
	}
	hourly := store.Limit{Name: "a", Of: store.Everything(), Rate: 1, Interval: time.Hour, Burst: 10}
	set(hourly)
	b.Exec(b.Pool, `INSERT INTO tasktable.limit_buckets VALUES ('a', clock_timestamp() + interval '10 hours')`)
	set(hourly)
	same(b, "unchanged", one[int](b, b.Pool, nextIn), 3600)
	hourly.Burst = 20
	set(hourly)
	same(b, "a greater burst", one[int](b, b.Pool, nextIn), -32400)
	hourly.Interval = time.Minute
	set(hourly)
	same(b, "another interval", one[int](b, b.Pool, nextIn), 60)
}

func TestWrongLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := store.Everything()
	for _, test := range []struct {
		limit store.Limit
		want  string
	}{
		{store.Limit{Of: all, MaxRunning: 1}, "name must be 1 to 64"},
		{store.Limit{Name: "A", Of: all, MaxRunning: 1}, "name must be 1 to 64"},
		{store.Limit{Name: "a", MaxRunning: 1}, "scope must be"},
		{store.Limit{Name: "a", Of: store.Queue("Mail"), MaxRunning: 1}, "queue must be"},
		{store.Limit{Name: "a", Of: store.Type("A"), MaxRunning: 1}, "type must be"},
		{store.Limit{Name: "a", Of: all}, "max_running or rate or per must be given"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1, Per: "day"}, "per must be group or tenant"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1, InOrder: true}, "in_order must be given together with per"},
		{store.Limit{Name: "a", Of: all, Per: store.PerGroup, InOrder: true, MaxRunning: 2}, "max_running must be 1 with in_order"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1, Weights: store.Weights{"a": 1}}, "weights must be given together with per"},
		{store.Limit{Name: "a", Of: all, Per: store.PerGroup, Weights: store.Weights{"a": 0}}, "weights must be between 1 and 1000"},
		{store.Limit{Name: "a", Of: all, Per: store.PerGroup, Weights: store.Weights{"a": 1001}}, "weights must be between 1 and 1000"},
		{store.Limit{Name: "a", Of: all, Per: store.PerGroup, Weights: store.Weights{"": 1}}, "weights must have names of 1 to 512 bytes"},
		{store.Limit{Name: "a", Of: all, Per: store.PerGroup, Weights: store.Weights{strings.Repeat("a", 513): 1}}, "weights must have names of"},
		{store.Limit{Name: "a", Of: all, MaxRunning: -1}, "max_running must be between 1 and 1000000"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1000001}, "max_running must be between 1 and 1000000"},
		{store.Limit{Name: "a", Of: all, Rate: 1000001}, "rate must be between 1 and 1000000"},
		{store.Limit{Name: "a", Of: all, Rate: 1, Burst: -1}, "burst must be between 1 and 1000000"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1, Burst: 1}, "rate must be given if"},
		{store.Limit{Name: "a", Of: all, MaxRunning: 1, Interval: time.Minute}, "rate must be given if"},
		{store.Limit{Name: "a", Of: all, Rate: 1, Interval: 24 * time.Hour, Burst: 4000}, "burst must be what the rate gives"},
		{store.Limit{Name: "a", Of: all, Rate: 1, Interval: time.Millisecond}, "rate_interval must be between 1s and 24h"},
		{store.Limit{Name: "a", Of: all, Rate: 1, Interval: 25 * time.Hour}, "rate_interval must be between 1s and 24h"},
	} {
		_, err := b.Tasks.SetLimit(t.Context(), b.Pool, test.limit)
		b.wantInvalid(err, test.want)
	}
	if _, err := b.Tasks.RemoveLimit(t.Context(), b.Pool, "No"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("remove: %v", err)
	}
	for want, calls := range map[string][]string{
		"a limit must have max_running, rate or per": {`'a'`},
		"per must be group or tenant":                {`'a', 1, per => 'day'`},
		"in_order must be given together with per":   {`'a', 1, in_order => true`},
		"max_running must be 1 with in_order":        {`'a', 2, per => 'group', in_order => true`},
		"weights must be given together with per":    {`'a', 1, weights => '{"a": 1}'`},
		"weights must be an object of whole numbers": {
			`'a', per => 'group', weights => '{"a": 0}'`, `'a', per => 'group', weights => '{"a": 1001}'`,
			`'a', per => 'group', weights => '{"a": 2.0}'`, `'a', per => 'group', weights => '{"a": "2"}'`,
			`'a', per => 'group', weights => '{"a": [2]}'`, `'a', per => 'group', weights => '[2]'`,
			`'a', per => 'group', weights => 'null'`,
		},
		"weights must have names of 1 to 512 bytes": {`'a', per => 'group', weights => '{"": 2}'`},
		"weights must have at most 1000 entries": {
			`'a', per => 'group', weights => (SELECT jsonb_object_agg(i, 1) FROM generate_series(1, 1001) AS i)`,
		},
		"name must be 1 to 64":        {`'A', 1`},
		`null value in column "name"`: {`NULL, 1`},
		"max_running must be between": {`'a', 0`},
		"rate must be between":        {`'a', rate => 0`, `'a', rate => -1, burst => 1`},
		"burst must be between":       {`'a', rate => 1, burst => 0`},
		"rate_interval must be between": {
			`'a', rate => 1, rate_interval => '0'`, `'a', rate => 1, rate_interval => '1 month'`,
			`'a', rate => 1, rate_interval => '1 month -29 days'`,
		},
		"burst must be what the rate gives":               {`'a', rate => 1, rate_interval => '24 hours', burst => 4000`},
		"rate must be given if rate_interval or burst is": {`'a', 1, burst => 1`},
		"type and queue must not both be given":           {`'a', 1, type => 'AB', queue => 'a'`},
		"type must be 2 to 127":                           {`'a', 1, type => 'A'`},
		"queue must be 1 to 64":                           {`'a', 1, queue => 'A'`},
	} {
		for _, call := range calls {
			b.refused(`SELECT tasktable.set_limit(`+call+`)`, want)
		}
	}
	for row, want := range map[string]string{
		`(name, scope, per, in_order) VALUES ('a', 'all', 'group', true)`:    "max_running must be 1 with in_order",
		`(name, scope, rate) VALUES ('a', 'all', 1)`:                         "rate, rate_interval and burst must be given together",
		`(name, scope, max_running) VALUES ('a', 'b', 1)`:                    "scope must be all, queue or type",
		`(name, scope, scope_name, max_running) VALUES ('a', 'all', 'b', 1)`: "scope_name must be a queue or a type, and empty for all",
	} {
		b.refused(`INSERT INTO tasktable.limits `+row, want)
	}
	same(b, "limits", one[int](b, b.Pool, `SELECT count(*) FROM tasktable.limits`), 0)
	b.limitEach("groups", store.Type("TEST"), store.PerGroup, "")
	b.limitEach("more-groups", all, store.PerGroup, "")
	b.limitEach("other-type", store.Type("TEST_2"), store.PerTenant, "per must be group, as in limit more-groups")
	b.limitEach("tenants", store.Queue("default"), store.PerTenant, "per must be group, as in limit")
	if _, err := b.Tasks.RemoveLimit(t.Context(), b.Pool, "more-groups"); err != nil {
		t.Error(err)
	}
	b.limitEach("other-type", store.Type("TEST_2"), store.PerTenant, "")
	b.limitEach("tenants", store.Queue("default"), store.PerTenant, "per must be group, as in limit groups")
	b.Exec(b.Pool, `DELETE FROM tasktable.limits`)
	b.Exec(b.Pool, `INSERT INTO tasktable.limits (name, scope, max_running) SELECT i::text, 'all', 1 FROM generate_series(1, 1000) AS i`)
	err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		_, err := b.Tasks.SetLimit(t.Context(), tx, store.Limit{Name: "7", Of: all, MaxRunning: 2})
		return err
	})
	if err != nil {
		t.Errorf("a limit that exists: %v", err)
	}
	if _, err := b.Tasks.SetLimit(t.Context(), b.Pool, store.Limit{Name: "a", Of: all, MaxRunning: 2}); err == nil ||
		!strings.Contains(err.Error(), "at most 1000 limits") {
		t.Errorf("one too many: %v", err)
	}
}

// limitEach sets a limit per group or tenant. want is a part of the error, or "".
func (b *bench) limitEach(name string, of store.Scope, per store.Per, want string) {
	b.Helper()
	_, err := b.Tasks.SetLimit(b.Context(), b.Pool, store.Limit{Name: name, Of: of, Per: per})
	if (err == nil) != (want == "") || err != nil && (!errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), want)) {
		b.Errorf("%s: %v, want %q", name, err, want)
	}
}
