package scheduled

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// secretTx is a payload for a handler with a transaction.
type secretTx struct {
	Name string `json:"name"`
}

func (secretTx) TaskType() string { return "SECRET_TX" }

// Nothing of a payload is in the database, whatever is done with it: nor of those of follow-ups, of runs
// again, of occurrences, of recurring tasks declared in code, of what fails, is edited and is deleted. The
// handlers have it all.
func TestEncryptedPayloadsAreNowhere(t *testing.T) {
	t.Parallel()
	const canary = "cAnAry-of-a-payload-7x"
	s := benchOf(t)
	codec := s.Seal()
	s.Exec(`CREATE TABLE public.jobs_seen (row text)`)
	s.Exec(`CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.jobs_seen
		VALUES (NEW::text); RETURN NULL; END $$`)
	s.Exec(`CREATE TRIGGER see AFTER INSERT OR UPDATE ON tasktable.river_job FOR EACH ROW
		EXECUTE FUNCTION public.see()`)
	seen := make(chan string, 100)
	var inMiddleware atomic.Int32
	s.node(func(c *Config) {
		c.Codec = codec
		c.Recurring = []store.Task{{
			ID: "declared", Payload: enginetest.Job{Name: canary + " declared"},
			Recurrence: &store.Recurrence{Cron: "@yearly"},
		}}
	},
		handlers.Use(func(next handlers.Handler) handlers.Handler {
			return func(ctx context.Context, e *handlers.Execution) error {
				if bytes.Contains(e.Payload, []byte(canary)) {
					inMiddleware.Add(1)
				}
				return next(ctx, e)
			}
		}),
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			seen <- task.Payload.Name
			switch task.ID {
			case "fails":
				return errors.New("as it should")
			case "first":
				task.FollowUp(store.Task{ID: "follow-up", Payload: enginetest.Job{Name: canary + " follow-up"}})
			case "again":
				if task.ScheduledAt.Before(time.Now().Add(-time.Minute)) {
					task.Again(time.Now())
				}
			}
			return nil
		}),
		handlers.HandleTx(func(_ context.Context, _ pgx.Tx, task *handlers.Task[secretTx]) error {
			seen <- task.Payload.Name
			task.FollowUp(store.Task{ID: "tx follow-up", Payload: enginetest.Job{Name: canary + " tx follow-up"}})
			return nil
		}))
	hidden := func(id string) func(*store.Task) {
		return func(task *store.Task) { task.Payload, task.MaxAttempts = enginetest.Job{Name: canary + " " + id}, 1 }
	}
	for _, id := range []string{"first", "fails"} {
		s.Add(id, hidden(id))
	}
	s.Add("again", func(task *store.Task) {
		task.Payload, task.At = enginetest.Job{Name: canary + " again"}, time.Now().Add(-time.Hour)
	})
	s.Add("tx", func(task *store.Task) { task.Payload = secretTx{canary + " tx"} })
	for _, which := range []string{"old", "new"} {
		s.Add("edited", func(task *store.Task) {
			task.Payload, task.At = enginetest.Job{Name: canary + which}, time.Now().Add(time.Hour)
		})
	}
	s.Add("deleted", func(task *store.Task) {
		task.Payload, task.At = enginetest.Job{Name: canary}, time.Now().Add(time.Hour)
	})
	s.Did(s.Tasks.Delete(t.Context(), s.Pool, "deleted"))
	enginetest.Await(t, s.Pool, "declared", patience, store.StatusQueued)
	s.Did(s.Tasks.RunNow(t.Context(), s.Pool, "declared"))

	got := map[string]int{}
	for range 8 {
		got[enginetest.Receive(t, seen, patience, "another handler runs")]++
	}
	want := map[string]int{
		canary + " first": 1, canary + " fails": 1, canary + " follow-up": 1, canary + " again": 2, canary + " tx": 1,
		canary + " tx follow-up": 1, canary + " declared": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || inMiddleware.Load() != 8 {
		t.Errorf("handlers were given %v, want %v; middleware %d", got, want, inMiddleware.Load())
	}
	s.Is("fails", store.StatusFailed, taskdb.OutcomeFailed)
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("again", store.StatusCompleted, taskdb.OutcomeCompleted, taskdb.OutcomeCompleted)
	s.Is("tx", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.isNowhere(canary)
}

// isNowhere looks for a text in each table of the database, as it is and as base64.
func (s *bench) isNowhere(text string) {
	s.T.Helper()
	forms := []string{text}
	// Of three places in a group of base64 the text has one; its ends depend on what is beside it.
	for shift := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + text))
		forms = append(forms, coded[4:len(coded)-4])
	}
	rows, err := s.Pool.Query(
		s.T.Context(),
		`SELECT format('SELECT coalesce(string_agg(t::text, ''; ''), '''') FROM %I.%I AS t', schemaname, tablename)
		FROM pg_tables WHERE schemaname IN ('tasktable', 'public')`,
	)
	s.OK(err)
	queries, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(queries) < 8 {
		s.T.Fatal(queries, err)
	}
	size := 0
	for _, query := range queries {
		var all string
		s.OK(s.Pool.QueryRow(s.T.Context(), query).Scan(&all))
		size += len(all)
		for _, form := range forms {
			if at := strings.Index(all, form); at >= 0 {
				s.T.Errorf("%s: …%s…", query, all[max(at-200, 0):min(at+50, len(all))])
			}
		}
	}
	if size < 5000 {
		s.T.Errorf("only %d bytes were looked at", size)
	}
}
