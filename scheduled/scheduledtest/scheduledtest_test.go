package scheduledtest_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/seal"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

var tasks = store.New(store.Config{Service: "test"})

type reminder struct {
	Event string `json:"event"`
}

func (reminder) TaskType() string  { return "REMINDER" }
func (r reminder) TaskKey() string { return r.Event }

func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	enginetest.OK(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func registry(t *testing.T, parts ...handlers.Part) *handlers.Registry {
	t.Helper()
	made, err := handlers.NewRegistry(parts...)
	enginetest.OK(t, err)
	return made
}

// schedule schedules a task, and fails the test if that fails.
func schedule(t *testing.T, db store.DB, task store.Task) {
	t.Helper()
	_, err := tasks.Schedule(t.Context(), db, task)
	enginetest.OK(t, err)
}

// runs has the tasks that are due at a time run, and compares what they come to.
func runs(t *testing.T, h *scheduledtest.Harness, at time.Time, want ...store.AttemptOutcome) {
	t.Helper()
	var got []store.AttemptOutcome
	ran := h.RunDueAt(t.Context(), at)
	for _, one := range ran {
		got = append(got, one.Outcome)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("ran %+v, want %v", ran, want)
	}
}

var fivePM = time.Date(2030, 5, 1, 17, 0, 0, 0, time.UTC)

func TestRunsWhatIsDueAndNothingElse(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	var seen []string
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			seen = append(seen, task.Payload.Event)
			if task.Payload.Event == "weekly" {
				task.Again(task.ScheduledAt.AddDate(0, 0, 7))
			}
			if !task.StartedAt.Equal(fivePM) && !task.StartedAt.Equal(fivePM.AddDate(0, 0, 7)) {
				t.Errorf("started at %s", task.StartedAt)
			}
			return nil
		})),
	)
	for event, at := range map[string]time.Time{
		"weekly": fivePM, "later": fivePM.Add(time.Second), "sooner": fivePM.Add(-time.Hour),
	} {
		schedule(t, tx, store.Task{Payload: reminder{event}, At: at})
	}
	ran := h.RunDueAt(t.Context(), fivePM)
	if len(ran) != 2 || ran[0].ID != "task-REMINDER-sooner" || ran[1].ID != "task-REMINDER-weekly" ||
		ran[1].Outcome != "COMPLETED" {
		t.Fatalf("ran %+v", ran)
	}
	row, err := tasks.Get(t.Context(), tx, "task-REMINDER-weekly")
	if err != nil || row.Status != store.StatusQueued || !row.ScheduledAt.Equal(fivePM.AddDate(0, 0, 7)) {
		t.Fatalf("weekly is %+v, %v", row, err)
	}
	if ran := h.RunDueAt(t.Context(), fivePM.AddDate(0, 0, 7)); len(ran) != 2 {
		t.Errorf("a week later ran %+v", ran)
	}
	if len(seen) != 4 {
		t.Errorf("seen %v", seen)
	}
}

func TestRetriesComeAtTheirOwnTimes(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	failure := errors.New("no mail today")
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			if task.Attempt == 1 {
				return failure
			}
			panic("second")
		})),
	)
	schedule(t, tx, store.Task{Payload: reminder{"x"}, At: fivePM, MaxAttempts: 2, Expiration: time.Hour})
	if ran := h.RunDueAt(t.Context(), fivePM); len(ran) != 1 || ran[0].Outcome != "RETRIED" ||
		!errors.Is(ran[0].Err, failure) {
		t.Fatalf("first ran %+v", ran)
	}
	runs(t, h, fivePM.Add(10*time.Second-time.Microsecond))
	ran := h.RunDueAt(t.Context(), fivePM.Add(10*time.Second))
	var panicked *handlers.PanicError
	if len(ran) != 1 || ran[0].Outcome != "FAILED" || !errors.As(ran[0].Err, &panicked) {
		t.Fatalf("second ran %+v", ran)
	}
}

func TestExpiredAtThatTime(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(t, tx, registry(t, handlers.Handle(func(context.Context, *handlers.Task[reminder]) error {
		t.Error("ran after its expiration")
		return nil
	})))
	schedule(t, tx, store.Task{Payload: reminder{"x"}, At: fivePM, Expiration: time.Hour})
	runs(t, h, fivePM.Add(time.Hour), "EXPIRED")
}

func TestTransactionalHandlers(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE effect (event text, attempt int)"); err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO effect VALUES ($1, $2)"
	first := errors.New("first")

	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		tx := begin(t, pool)
		h := scheduledtest.New(
			t, tx,
			registry(t, handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[reminder]) error {
				if _, err := tx.Exec(ctx, insert, task.Payload.Event, task.Attempt); err != nil {
					return err
				}
				if task.Attempt == 1 {
					return first
				}
				return nil
			})),
		)
		check(t, h, tx)
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		db := stdlib.OpenDBFromPool(pool)
		defer func() { _ = db.Close() }()
		tx, err := db.BeginTx(t.Context(), nil)
		enginetest.OK(t, err)
		defer func() { _ = tx.Rollback() }()
		h := scheduledtest.NewSQL(
			t, tx,
			registry(
				t, handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[reminder]) error {
					if _, err := tx.ExecContext(ctx, insert, task.Payload.Event, task.Attempt); err != nil {
						return err
					}
					if task.Attempt == 1 {
						return first
					}
					return nil
				}),
			),
		)
		check(t, h, store.SQL(tx))
	})
}

// check expects the first attempt's effect to be rolled back and the second's to stay.
func check(t *testing.T, h *scheduledtest.Harness, db store.DB) {
	t.Helper()
	schedule(t, db, store.Task{Payload: reminder{"x"}, At: fivePM})
	runs(t, h, fivePM, "RETRIED")
	runs(t, h, fivePM.Add(time.Minute), "COMPLETED")
	rows, err := db.Query(t.Context(), "SELECT attempt FROM effect")
	enginetest.OK(t, err)
	attempts, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(attempts) != 1 || attempts[0] != 2 {
		t.Errorf("effects of attempts %v, %v", attempts, err)
	}
}

// A task that snoozes for no time runs once at each time that the test names; one whose retries do not wait would never
// end.
func TestEndlessTaskIsStopped(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(&fatal{TB: t}, tx, registry(t,
		handlers.Func("SNOOZE", func(context.Context) error { return handlers.Snooze(0) }),
		handlers.Func("LOOP", func(context.Context) error { return handlers.RetryAfter(0, errors.New("not yet")) }),
	))
	snooze := store.Task{Payload: store.JSON(`{"type":"SNOOZE"}`), At: fivePM}
	schedule(t, tx, snooze)
	for i, want := range []int{1, 0, 1} {
		at := fivePM.Add(time.Duration(i) * 500 * time.Millisecond)
		if ran := h.RunDueAt(t.Context(), at); len(ran) != want {
			t.Errorf("at %s ran %+v", at, ran)
		}
	}
	loop := store.Task{Payload: store.JSON(`{"type":"LOOP"}`), At: fivePM, MaxAttempts: store.MaxMaxAttempts}
	schedule(t, tx, loop)
	defer func() {
		if recover() == nil {
			t.Error("an endless task was let run")
		}
	}()
	h.RunDueAt(t.Context(), fivePM)
}

// fatal panics where a test would end.
type fatal struct{ testing.TB }

func (f *fatal) Fatalf(format string, _ ...any) { panic(format) }

// What runs in a test is traced as on a node: each attempt in a trace of its own, whatever the test's context is in.
func TestTracer(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			if task.Payload.Event == "first" {
				task.FollowUp(store.Task{Payload: reminder{"second"}, At: fivePM})
			}
			return nil
		})),
		scheduledtest.WithTracer(provider),
	)
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	if _, err := tasks.Schedule(ctx, tx, store.Task{Payload: reminder{"first"}, At: fivePM}); err != nil {
		t.Fatal(err)
	}
	if ran := h.RunDueAt(ctx, fivePM); len(ran) != 2 {
		t.Fatalf("ran %+v", ran)
	}
	before := request.SpanContext()
	for _, span := range recorder.Ended() {
		if span.Parent().IsValid() || len(span.Links()) != 1 ||
			span.Links()[0].SpanContext.SpanID() != before.SpanID() {
			t.Errorf(
				"span %s has the parent %v and the links %v, want one to %v", span.Name(), span.Parent(), span.Links(),
				before,
			)
		}
		before = span.SpanContext()
	}
	if n := len(recorder.Ended()); n != 2 {
		t.Errorf("%d spans", n)
	}
}

// With a codec handlers are given what was scheduled, and what they schedule is encoded, whatever their transaction;
// without it they are given nothing.
func TestCodec(t *testing.T) {
	t.Parallel()
	codec, err := seal.New(seal.Key{ID: "test", Secret: make([]byte, seal.SecretBytes)})
	enginetest.OK(t, err)
	sealed := store.New(store.Config{Codec: codec})
	pool := storetest.Pool(t)
	var seen []string
	remind := func(e *handlers.Execution, event string) error {
		if seen = append(seen, event); event == "first" {
			e.FollowUp(store.Task{ID: "second", Payload: reminder{"second"}, At: fivePM})
		}
		return nil
	}
	plain := handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
		return remind(task.Execution, task.Payload.Event)
	})
	inPgx := handlers.HandleTx(func(_ context.Context, _ pgx.Tx, task *handlers.Task[reminder]) error {
		return remind(task.Execution, task.Payload.Event)
	})
	inSQL := handlers.HandleSQLTx(func(_ context.Context, _ *sql.Tx, task *handlers.Task[reminder]) error {
		return remind(task.Execution, task.Payload.Event)
	})
	check := func(what string, db store.DB, run func(...scheduledtest.Option) []scheduledtest.Ran) {
		t.Helper()
		seen = nil
		if _, err := sealed.Schedule(t.Context(), db, store.Task{
			ID: "first", Payload: reminder{"first"}, At: fivePM,
		}); err != nil {
			t.Fatal(err)
		}
		if ran := run(); len(ran) != 1 || ran[0].Outcome != "RETRIED" ||
			!errors.Is(ran[0].Err, store.ErrUnknownCodec) || seen != nil {
			t.Errorf("%s, without the codec: ran %+v with %q", what, ran, seen)
		}
		if _, err := sealed.RunNow(t.Context(), db, "first"); err != nil {
			t.Fatal(err)
		}
		if ran := run(scheduledtest.WithCodec(codec)); len(ran) != 2 || len(seen) != 2 || seen[0] != "first" ||
			seen[1] != "second" {
			t.Errorf("%s: ran %+v with %q", what, ran, seen)
		}
		row, err := sealed.Get(t.Context(), db, "second")
		if err != nil || strings.Contains(string(row.Payload), "second") {
			t.Errorf("%s: the follow-up is stored as %s, %v", what, row.Payload, err)
		}
	}
	at := time.Now().Add(10 * 365 * 24 * time.Hour) // after fivePM, and after the RunNow
	for what, part := range map[string]handlers.Part{"plain": plain, "pgx": inPgx} {
		tx := begin(t, pool)
		check(what, tx, func(options ...scheduledtest.Option) []scheduledtest.Ran {
			return scheduledtest.New(t, tx, registry(t, part), options...).RunDueAt(t.Context(), at)
		})
		enginetest.OK(t, tx.Rollback(t.Context()))
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	enginetest.OK(t, err)
	defer func() { _ = tx.Rollback() }()
	check("SQL", store.SQL(tx), func(options ...scheduledtest.Option) []scheduledtest.Ran {
		return scheduledtest.NewSQL(t, tx, registry(t, inSQL), options...).RunDueAt(t.Context(), at)
	})
}

// The mail that a handler hands over to a follow-up is personal data too: erasing the tenant removes it.
func TestErasureOfATenantRemovesFollowUps(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			task.FollowUp(store.Task{ID: "the mail", Payload: reminder{"mail"}, At: fivePM.Add(time.Hour)})
			return nil
		})),
	)
	visit := store.Task{Payload: reminder{"visit"}, At: fivePM, Entity: "visit:1", TenantID: "clinic"}
	schedule(t, tx, visit)
	runs(t, h, fivePM, "COMPLETED")
	mail, err := tasks.Get(t.Context(), tx, "the mail")
	if err != nil || mail.Entity == nil || *mail.Entity != "visit:1" || mail.TenantID == nil ||
		*mail.TenantID != "clinic" {
		t.Fatalf("the mail is %+v, %v", mail, err)
	}
	if _, err := tasks.EraseTenant(t.Context(), tx, "clinic"); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Get(t.Context(), tx, "the mail"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the erasure the mail is still there: %v", err)
	}
}

// A reminder that handed its mail over to a follow-up has completed, whatever becomes of the mail: why says both.
func TestWhyTellsWhatBecameOfFollowUps(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			if task.Payload.Event != "visit" {
				return handlers.Permanent(errors.New("550 no such mailbox"))
			}
			task.FollowUp(store.Task{ID: "the mail", Payload: reminder{"mail"}, At: fivePM.Add(time.Hour)})
			return nil
		})),
	)
	schedule(t, tx, store.Task{ID: "visit", Payload: reminder{"visit"}, At: fivePM})
	for _, step := range []struct {
		at   time.Time
		want string
	}{
		{fivePM, "; its follow-up the mail (REMINDER) is QUEUED"},
		{fivePM.Add(time.Hour), "; its follow-up the mail (REMINDER) is FAILED: 550 no such mailbox"},
	} {
		h.RunDueAt(t.Context(), step.at)
		e, err := inspect.New(store.Config{}).Why(t.Context(), tx, "visit")
		if err != nil || e.Reason.Code != "completed" || !strings.HasSuffix(e.Sentence, step.want) {
			t.Errorf("at %s: %q, %v; want %q at its end", step.at, e.Sentence, err, step.want)
		}
	}
	listed, err := inspect.New(store.Config{}).List(t.Context(), tx, inspect.Filter{SpawnedBy: "visit"})
	if err != nil || len(listed) != 1 || listed[0].ID != "the mail" {
		t.Errorf("listed %+v, %v", listed, err)
	}
}

// An application syncs an entity with the tasks that it knows. It does not know the follow-ups of their handlers.
func TestSyncLeavesFollowUpsAlone(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			task.FollowUp(store.Task{ID: "the mail", Payload: reminder{"mail"}, At: fivePM.Add(time.Hour)})
			return nil
		})),
	)
	visit := store.Task{ID: "visit", Payload: reminder{"visit"}, At: fivePM}
	other := store.Task{ID: "other", Payload: reminder{"other"}, At: fivePM.Add(9 * time.Hour)}
	if _, err := tasks.Sync(t.Context(), tx, "visit:1", visit, other); err != nil {
		t.Fatal(err)
	}
	h.RunDueAt(t.Context(), fivePM)
	receipts, err := tasks.Sync(t.Context(), tx, "visit:1", visit)
	if err != nil || len(receipts) != 2 || receipts[0].Outcome != store.Finished || receipts[1].ID != "other" ||
		receipts[1].Outcome != store.Cancelled {
		t.Errorf("synced %+v, %v", receipts, err)
	}
	if mail, err := tasks.Get(t.Context(), tx, "the mail"); err != nil || mail.Status != store.StatusQueued {
		t.Errorf("the mail is %s, %v", mail.Status, err)
	}
}

// A test sees what a handler left without reading rows.
func TestRanTellsWhatTheHandlerLeft(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			task.Note("sent %s", task.Payload.Event)
			task.Result(map[string]int{"sent": 2})
			task.FollowUp(store.Task{ID: "thanks", Payload: reminder{"later"}, At: fivePM.Add(time.Hour)})
			task.FollowUp(store.Task{Payload: reminder{"survey"}, At: fivePM.Add(time.Hour)})
			if task.Payload.Event == "fails" {
				return errors.New("no mail today")
			}
			return nil
		})),
	)
	for _, event := range []string{"works", "fails"} {
		schedule(t, tx, store.Task{ID: event, Payload: reminder{event}, At: fivePM})
	}
	ran := map[string]scheduledtest.Ran{}
	for _, one := range h.RunDueAt(t.Context(), fivePM) {
		ran[one.ID] = one
	}
	works, fails := ran["works"], ran["fails"]
	if works.Note != "sent works" || string(works.Result) != `{"sent":2}` ||
		strings.Join(works.FollowUps, " ") != "thanks task-REMINDER-survey" {
		t.Errorf("the one that works left %+v", works)
	}
	if fails.Note != "" || fails.Result != nil || fails.FollowUps != nil {
		t.Errorf("the one that fails left %+v", fails)
	}
}

// A retry of a dead letter is the same wish. The run that Again asks for is another.
func TestTheIdempotencyKeyIsOfTheWish(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	var keys []string
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			keys = append(keys, task.IdempotencyKey())
			if len(keys) == 1 {
				return handlers.Permanent(errors.New("the answer was lost"))
			}
			task.Again(task.ScheduledAt)
			return nil
		})),
	)
	made, err := tasks.Schedule(t.Context(), tx, store.Task{Payload: reminder{"x"}, At: fivePM})
	enginetest.OK(t, err)
	h.RunDueAt(t.Context(), fivePM)
	if _, err := tasks.Retry(t.Context(), tx, made.ID); err != nil {
		t.Fatal(err)
	}
	h.RunDueAt(t.Context(), fivePM.Add(time.Hour))
	h.RunDueAt(t.Context(), fivePM.Add(2*time.Hour))
	if len(keys) != 3 || keys[0] != keys[1] || keys[1] == keys[2] {
		t.Errorf("keys %v", keys)
	}
}
