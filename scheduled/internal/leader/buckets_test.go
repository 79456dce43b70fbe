package leader

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// rateEach sets a limit of some starts of each group.
func (b *bench) rateEach(rate int, interval time.Duration, burst int) {
	b.T.Helper()
	limit := store.Limit{Name: "each", Of: store.Type("JOB"), Per: store.PerGroup, Rate: rate, Interval: interval,
		Burst: burst}
	b.Did(b.Tasks.SetLimit(b.T.Context(), b.Pool, limit))
}

// agrees fails the test if the leader does not know the buckets as they are.
func (b *bench) agrees(l *Leader, rows int) {
	b.T.Helper()
	type row struct {
		Key    string
		FullAt time.Time
	}
	found, err := b.Pool.Query(b.T.Context(), `SELECT limit_key, full_at FROM tasktable.limit_buckets`)
	b.OK(err)
	defer found.Close()
	read := 0
	for ; found.Next(); read++ {
		var one row
		b.OK(found.Scan(&one.Key, &one.FullAt))
		if known := l.lanes.buckets.of["each"][one.Key]; !known.Equal(one.FullAt) {
			b.T.Errorf("the bucket of %s is full at %s, but known is %s", one.Key, one.FullAt, known)
		}
	}
	if read != rows || l.lanes.buckets.count != rows {
		b.T.Errorf("%d buckets, of which %d are known, want %d", read, l.lanes.buckets.count, rows)
	}
}

// Each group has its own tokens. The next leader knows how many are left, and a new rate counts from its set on.
func TestRateOfEachGroup(t *testing.T) {
	b := newBench(t)
	b.rateEach(1, time.Hour, 2)
	for _, id := range []string{"a1", "a2", "a3", "a4", "b1"} {
		b.Add(id, group(id[:1]))
	}
	b.Add("none", nil)
	l := b.elected(slots(20))
	b.stays(l, "a1 a2 b1 none")
	b.agrees(l, 2)
	if found := b.looks(l); found.full || found.next < 50*time.Minute {
		t.Errorf("%+v; the leader looks again when there is a token", found)
	}
	b.OK(l.resign(t.Context()))
	next := b.elected(slots(20))
	b.stays(next, "a1 a2 b1 none")
	b.agrees(next, 2)
	b.Add("b2", group("b"))
	b.Add("b3", group("b"))
	b.claims(next, "a1 a2 b1 b2 none")
	b.agrees(next, 2)
	b.rateEach(2, time.Second, 2)
	b.claims(next, "a1 a2 a3 a4 b1 b2 b3 none")
}

// A limit that is removed and set again in the same term finds its buckets.
func TestBucketsOfALimitThatComesBack(t *testing.T) {
	b := newBench(t)
	b.rateEach(1, time.Hour, 1)
	b.Add("a1", group("a"))
	l := b.elected(slots(20))
	b.claims(l, "a1")
	b.limitEach()
	b.looks(l)
	if l.lanes.buckets.count != 0 {
		t.Errorf("%d buckets are known without a rate", l.lanes.buckets.count)
	}
	b.rateEach(1, time.Hour, 1)
	b.Add("a2", group("a"))
	b.stays(l, "a1")
	b.agrees(l, 1)
}

// deferredSQL refuses a claim at its commit, when the tokens are taken.
const deferredSQL = `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'no' USING ERRCODE = '22000';
END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON tasktable.scheduled_tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.id = 'a2' AND NEW.status = 'EXECUTING') EXECUTE FUNCTION refuse()`

// A claim that is rolled back takes no token, however often the leader tries.
func TestFailedClaimsTakeNoTokens(t *testing.T) {
	b := newBench(t)
	b.rateEach(1, time.Hour, 3)
	for _, id := range []string{"a1", "a2", "a3", "a4", "a5", "b1"} {
		b.Add(id, group(id[:1]))
	}
	b.Exec(deferredSQL)
	l := b.elected(slots(20))
	b.claims(l, "a1 a3 a4 b1")
	if got, want := b.states(),
		"a1 EXECUTING, a2 FAILED, a3 EXECUTING, a4 EXECUTING, a5 QUEUED, b1 EXECUTING"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.agrees(l, 2)
}

// If the connection breaks at the commit, nobody knows whether tokens are taken. They count as taken until the next
// term has read the buckets.
func TestTokensOfAnUnknownCommit(t *testing.T) {
	b := newBench(t)
	b.rateEach(1, time.Hour, 1)
	b.Add("a1", group("a"))
	l := b.elected(slots(20))
	b.Exec(`CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_terminate_backend(pg_backend_pid());
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER breaks AFTER UPDATE ON tasktable.scheduled_tasks DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.status = 'EXECUTING') EXECUTE FUNCTION breaks()`)
	enginetest.Eventually(t, enginetest.Patience, "the connection breaks", func() bool {
		_, err := l.pass(t.Context())
		return err != nil && l.conn.IsClosed()
	})
	if l.lanes.buckets.count != 1 {
		t.Errorf("%d buckets are known", l.lanes.buckets.count)
	}
	b.Exec(`DROP TRIGGER breaks ON tasktable.scheduled_tasks`)
	b.leads(l)
	b.claims(l, "a1")
	b.agrees(l, 1)
}

// A bucket of which the leader does not know is full, unless it knows too many. A change of the rate empties it.
func TestKnownBuckets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	limit := taskdb.Limit{Name: "each", Per: "group", Burst: 10, Interval: time.Second, Now: now}
	for _, test := range []struct {
		name   string
		change func(*buckets)
		key    string
		want   time.Duration
	}{
		{name: "known", key: "g:a", want: 3 * time.Second},
		{name: "full meanwhile", key: "g:b"},
		{name: "unknown", key: "g:x"},
		{name: "fuller than it can be", key: "g:c", want: 10 * time.Second},
		{name: "too many are known", change: func(b *buckets) { b.count = maxBuckets }, key: "g:x", want: 10 * time.Second},
		{name: "known beside too many", change: func(b *buckets) { b.count = maxBuckets }, key: "g:a", want: 3 * time.Second},
		{name: "others were not read", change: func(b *buckets) { b.unread = now.Add(1) }, key: "g:x", want: 10 * time.Second},
		{name: "they are full by now", change: func(b *buckets) { b.unread = now }, key: "g:x"},
	} {
		b := &buckets{count: 3, of: map[string]map[string]time.Time{"each": {
			"g:a": now.Add(3 * time.Second), "g:b": now.Add(-time.Second), "g:c": now.Add(time.Hour),
		}}}
		if test.change != nil {
			test.change(b)
		}
		if got := b.full(limit, test.key); got != test.want {
			t.Errorf("%s: full in %s, want %s", test.name, got, test.want)
		}
		if b.sweep(now); b.count != 2 && test.change == nil {
			t.Errorf("%s: %d are left, want 2", test.name, b.count)
		}
	}
}

// The buckets are read in parts, and those that are full are left out.
func TestBucketsAreReadInParts(t *testing.T) {
	b := newBench(t)
	b.rateEach(1, time.Hour, 1)
	b.Exec(`INSERT INTO tasktable.limit_buckets (name, limit_key, full_at)
		SELECT 'each', 'g:' || i, clock_timestamp() + CASE WHEN i % 2 = 0 THEN interval '1 hour' ELSE '-1 hour' END
		FROM generate_series(1, $1::int) AS i`, 2*bucketsRead)
	b.Add("a1", group("2"))
	b.Add("a2", group("3"))
	l := b.elected(slots(20))
	b.stays(l, "a2")
	if got := fmt.Sprint(l.lanes.buckets.count); got != fmt.Sprint(bucketsRead+1) {
		t.Errorf("%s buckets are known", got)
	}
}
