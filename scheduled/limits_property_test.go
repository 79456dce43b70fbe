package scheduled

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// The test of this file runs random tasks under random limits, which change meanwhile, and compares what happened with
// a small model of the limits. The model knows the handlers' own log, and the log of claims that a trigger writes.

const logClaimsSQL = `
CREATE TABLE claim_log (task_id text, fence bigint, asked_at timestamptz, claimed_at timestamptz);
CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO claim_log VALUES (NEW.id, NEW.fence, transaction_timestamp(), clock_timestamp()); RETURN NULL;
END $$;
CREATE TRIGGER zzzz_log_claim AFTER UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
	WHEN (NEW.fence IS NOT NULL AND NEW.fence IS DISTINCT FROM OLD.fence) EXECUTE FUNCTION log_claim()`

// reign is a time in which a limit does not change.
type reign struct {
	limit      store.Limit
	from, last time.Time // by the database's clock: claims in transactions that began between these obey it
	until      time.Time // by this process's clock
}

// spell is a call of a handler.
type spell struct {
	task     store.Task
	fence    int64
	from, to time.Time
	final    bool
	claimed  claimed
}

// claimed is when a task was claimed, and when the transaction began that did so.
type claimed struct{ asked, at time.Time }

// model has what happened.
type model struct {
	mu     sync.Mutex
	dice   *rand.Rand
	tasks  map[string]store.Task
	fails  map[string]int // how many attempts of a task fail
	spells []*spell
	reigns []*reign
	ended  int
}

func kindOf(task store.Task) string { return task.Payload.TaskType() }

// run is the handler of all tasks.
func (m *model) run(ctx context.Context, e *handlers.Execution) error {
	m.mu.Lock()
	one := &spell{task: m.tasks[e.ID], fence: e.Fence, from: time.Now()}
	m.spells = append(m.spells, one)
	var takes time.Duration
	if m.dice.IntN(3) > 0 { // the others are quick, so that several may share a job
		takes = time.Duration(m.dice.IntN(40)) * time.Millisecond
	}
	fails := e.Attempt <= m.fails[e.ID]
	wait := time.Duration(m.dice.IntN(200)) * time.Millisecond
	m.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(takes):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one.to = time.Now()
	switch m.ended++; {
	case ctx.Err() != nil:
		return ctx.Err()
	case fails:
		return handlers.RetryAfter(wait, errors.New("no"))
	}
	one.final = true
	return nil
}

// of reports whether a limit counts a task, and by which group or tenant.
func (r *reign) of(task store.Task) (key string, counts bool) {
	queue := task.Queue
	if queue == "" {
		queue = "default"
	}
	switch scope := r.limit.Of.String(); {
	case scope != store.Everything().String() && scope != store.Queue(queue).String() &&
		scope != store.Type(kindOf(task)).String():
		return "", false
	case r.limit.Per == store.PerGroup:
		return task.Group, task.Group != ""
	case r.limit.Per == store.PerTenant:
		return task.TenantID, task.TenantID != ""
	}
	return "", true
}

// counted lists the spells, by group or tenant, whose claim had to obey the limit.
func (r *reign) counted(spells []*spell) map[string][]*spell {
	found := map[string][]*spell{}
	for _, one := range spells {
		if key, counts := r.of(one.task); counts && r.obeyed(one.claimed.asked) {
			found[key] = append(found[key], one)
		}
	}
	return found
}

func (r *reign) obeyed(asked time.Time) bool { return asked.After(r.from) && asked.Before(r.last) }

// faults compares what happened under a limit with the model. late is how much the measured times may be off.
func (r *reign) faults(spells []*spell, claims []claimed, late time.Duration) (found []string) {
	fault := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("%+v: ", r.limit)+fmt.Sprintf(format, args...))
	}
	for key, all := range r.counted(spells) {
		for _, one := range all {
			var beside []string
			for _, other := range all {
				if !other.from.After(one.from) && one.from.Before(other.to) {
					beside = append(beside, other.task.ID)
				}
				if r.limit.InOrder && other.task.ID != one.task.ID && other.from.Before(one.from) &&
					one.from.Before(r.until) && !finalBefore(spells, other.task.ID, one.from) {
					fault("%s: %s began, and %s is not final", key, one.task.ID, other.task.ID)
				}
			}
			most := r.limit.MaxRunning
			if r.limit.InOrder {
				most = 1
			}
			if most > 0 && len(beside) > most && one.from.Before(r.until) {
				fault("%s: %s run at once", key, strings.Join(beside, ", "))
			}
		}
	}
	if r.limit.Rate == 0 {
		return found
	}
	interval := max(r.limit.Interval, time.Second)
	burst := max(r.limit.Burst, r.limit.Rate*int(100*time.Millisecond)/int(interval), 1)
	for i, first := range claims {
		for n, one := range claims[i:] {
			in := one.at.Sub(first.at)
			if most := float64(burst) + float64(in+late)*float64(r.limit.Rate)/float64(interval); float64(n+1) > most {
				fault("%d claims in %s, want %.1f at most", n+1, in, most)
				return found
			}
		}
	}
	return found
}

// finalBefore reports whether a task has ended before a time.
func finalBefore(spells []*spell, id string, at time.Time) bool {
	for _, one := range spells {
		if one.task.ID == id && one.final && !one.to.After(at) {
			return true
		}
	}
	return false
}

// someLimit is a random limit. The store may refuse it beside others.
func (m *model) someLimit() store.Limit {
	scopes := []store.Scope{store.Everything(), store.Queue("default"), store.Queue("mail"), store.Type("QUICK"),
		store.Type("OTHER")}
	limit := store.Limit{Name: fmt.Sprint("limit-", m.dice.IntN(4)), Of: scopes[m.dice.IntN(len(scopes))]}
	switch m.dice.IntN(6) {
	case 0:
		limit.Rate, limit.Burst = 20+m.dice.IntN(40), m.dice.IntN(6)
		limit.MaxRunning = m.dice.IntN(4)
	case 1:
		limit.MaxRunning = 1 + m.dice.IntN(4)
	case 2:
		limit.Per, limit.MaxRunning = store.PerTenant, m.dice.IntN(3)
	case 3:
		limit.Per, limit.MaxRunning = store.PerGroup, m.dice.IntN(3)
	case 4:
		limit.Per, limit.InOrder = store.PerTenant, true
	case 5:
		limit.Per, limit.InOrder = store.PerGroup, true
	}
	return limit
}

// someTasks are random tasks. Some fail some times, and then succeed.
func (m *model) someTasks(n int) (made []store.Task) {
	for i := range n {
		task := store.Task{ID: fmt.Sprint("task ", i), Payload: quick{}, Priority: m.dice.IntN(3),
			At: time.Now().Add(time.Duration(m.dice.IntN(1500)) * time.Millisecond)}
		if m.dice.IntN(3) == 0 {
			task.Payload = otherJob{}
		}
		if m.dice.IntN(3) == 0 {
			task.Queue = "mail"
		}
		if m.dice.IntN(4) > 0 {
			task.Group, task.TenantID = fmt.Sprint("g", m.dice.IntN(5)), fmt.Sprint("t", m.dice.IntN(3))
		}
		if m.dice.IntN(4) == 0 {
			m.fails[task.ID] = 1 + m.dice.IntN(3)
		}
		m.tasks[task.ID] = task
		made = append(made, task)
	}
	return made
}

// dbNow is the database's time.
func (s *bench) dbNow() time.Time {
	s.T.Helper()
	return enginetest.Ask[time.Time](s.Bench, `SELECT clock_timestamp()`)
}

// change sets a random limit, or removes one. The old limit of the name holds until then.
func (s *bench) change(m *model) {
	s.T.Helper()
	m.mu.Lock()
	limit, remove := m.someLimit(), m.dice.IntN(4) == 0
	m.mu.Unlock()
	last, until := s.dbNow(), time.Now()
	var outcome store.Outcome
	var err error
	if remove {
		outcome, err = s.Tasks.RemoveLimit(s.T.Context(), s.Pool, limit.Name)
	} else {
		outcome, err = s.Tasks.SetLimit(s.T.Context(), s.Pool, limit)
	}
	switch {
	case !remove && errors.Is(err, store.ErrInvalid): // it does not go with another one
		return
	case err != nil:
		s.T.Fatal(err)
	case outcome == store.Unchanged || outcome == store.Absent:
		return
	}
	from := s.dbNow()
	for _, one := range m.reigns {
		if one.limit.Name == limit.Name && one.until.IsZero() {
			one.last, one.until = last, until
		}
	}
	if !remove {
		m.reigns = append(m.reigns, &reign{limit: limit, from: from})
	}
}

// disturb stops a node and starts another one, or pauses something for half a second.
func (s *bench) disturb(m *model, stops []func(), node func() func()) {
	m.mu.Lock()
	what := m.dice.IntN(4)
	m.mu.Unlock()
	switch what {
	case 0:
		which := len(m.reigns) % len(stops)
		stops[which]()
		stops[which] = node()
	case 1, 2:
		scope := []store.Scope{store.Queue("mail"), store.Type("QUICK")}[what-1]
		s.Did(s.Tasks.PauseScope(s.T.Context(), s.Pool, scope, s.dbNow().Add(500*time.Millisecond), "for a while"))
	}
}

// limitsRun is a run with a seed.
func limitsRun(t *testing.T, seed uint64) {
	s := benchOf(t)
	limitOf := enginetest.Limits(t, s.Pool)
	s.Exec(logClaimsSQL)
	m := &model{dice: rand.New(rand.NewPCG(seed, 0)), tasks: map[string]store.Task{}, fails: map[string]int{}}
	const tasks, changes = 120, 8
	made := m.someTasks(tasks)
	for range 3 {
		s.change(m)
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, made[:tasks/2]))
	node := func() (stop func()) {
		return s.node(func(c *Config) { c.Queues = map[string]int{"default": 6, "mail": 4} },
			handlers.Handle(func(ctx context.Context, task *handlers.Task[quick]) error { return m.run(ctx, task.Execution) }),
			handlers.Handle(func(ctx context.Context, task *handlers.Task[otherJob]) error { return m.run(ctx, task.Execution) }))
	}
	stops := []func(){node(), node()}
	for i := range changes {
		enginetest.Eventually(t, patience, "handlers end", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.ended >= min(i*tasks/changes, tasks/2)
		})
		if i == changes/3 {
			s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, made[tasks/2:]))
		}
		s.change(m)
		s.disturb(m, stops, node)
	}
	s.Sees("all have ended", completedSQL, tasks)
	last, until := s.dbNow(), time.Now()
	for _, stop := range stops {
		stop()
	}
	claims := s.claimLog()
	for _, one := range m.spells {
		one.claimed = claims[one.fence]
	}
	for _, one := range m.reigns {
		if one.until.IsZero() {
			one.last, one.until = last, until
		}
		for _, fault := range one.faults(m.spells, s.claimsUnder(m, one), limitOf(100*time.Millisecond)) {
			t.Error(fault)
		}
	}
}

// claimLog is what the trigger has written, by fence.
func (s *bench) claimLog() map[int64]claimed {
	s.T.Helper()
	rows, err := s.Pool.Query(s.T.Context(), `SELECT fence, asked_at, claimed_at FROM claim_log`)
	s.OK(err)
	found, one, fence := map[int64]claimed{}, claimed{}, int64(0)
	s.Did(pgx.ForEachRow(rows, []any{&fence, &one.asked, &one.at}, func() error {
		found[fence] = one
		return nil
	}))
	return found
}

// claimsUnder lists, in their order, the claims that had to obey a limit and counted for it.
func (s *bench) claimsUnder(m *model, under *reign) (found []claimed) {
	s.T.Helper()
	rows, err := s.Pool.Query(s.T.Context(), `SELECT task_id, asked_at, claimed_at FROM claim_log ORDER BY claimed_at`)
	s.OK(err)
	var id string
	var one claimed
	s.Did(pgx.ForEachRow(rows, []any{&id, &one.asked, &one.at}, func() error {
		if _, counts := under.of(m.tasks[id]); counts && under.obeyed(one.asked) {
			found = append(found, one)
		}
		return nil
	}))
	return found
}

// Whatever the limits, no more tasks run or start than they say, no order is broken, and all tasks end.
// TASKTABLE_TEST_LIMITS is how many more seeds it takes, and TASKTABLE_TEST_LIMITS_SEED is one seed instead.
func TestRandomLimits(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4}
	if text := os.Getenv("TASKTABLE_TEST_LIMITS_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		enginetest.OK(t, err)
		seeds = []uint64{seed}
	}
	more, _ := strconv.Atoi(os.Getenv("TASKTABLE_TEST_LIMITS"))
	for range more {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			limitsRun(t, seed)
		})
	}
}
