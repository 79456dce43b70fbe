package worker

import (
	"context"
	"encoding/json"
	"errors"
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

// failing is a codec that fails, or takes its time, as it is told to.
type failing struct {
	store.Codec
	encode, decode func() error
}

func (f failing) Encode(ctx context.Context, kind, id string, plain []byte) (string, []byte, error) {
	if f.encode != nil {
		if err := f.encode(); err != nil {
			return "", nil, err
		}
	}
	return f.Codec.Encode(ctx, kind, id, plain)
}

func (f failing) Decode(ctx context.Context, name, kind, id string, data []byte) ([]byte, error) {
	if f.decode != nil {
		if err := f.decode(); err != nil {
			return nil, err
		}
	}
	return f.Codec.Decode(ctx, name, kind, id, data)
}

// What came of tasks that cannot be decoded, and what is told of them: the type and the rule, nothing of the payload.
func TestPayloadsThatDoNotDecode(t *testing.T) {
	s := newBench(t)
	codec := s.Seal()
	var down atomic.Bool
	down.Store(true)
	errDown := errors.New("the key service is down")
	ran := make(chan string, 10)
	s.node(func(c *Config) {
		c.Codec = failing{codec, nil, func() error {
			if down.Swap(false) {
				return errDown
			}
			return nil
		}}
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		ran <- task.Payload.Name
		return nil
	}))

	s.Add("for a while", nil)
	s.Is("for a while", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
	if got := <-ran; got != "for a while" {
		t.Errorf("ran with %q", got)
	}
	plain := store.New(store.Config{})
	s.Did(plain.Schedule(t.Context(), s.Pool, store.Task{ID: "plain", Payload: enginetest.Job{Name: "of before"}}))
	if got := enginetest.Receive(t, ran, patience, "what is not encoded runs"); got != "of before" {
		t.Errorf("ran with %q", got)
	}
	insert := func(id, sql string, args ...any) {
		s.Exec(`INSERT INTO tasktable.scheduled_tasks (id, max_attempts, payload)
			VALUES ($1, 2, `+sql+`)`, append([]any{id}, args...)...)
	}
	insert("copied", `(SELECT payload FROM tasktable.scheduled_tasks WHERE id = 'for a while')`)
	insert("of another key", `jsonb_build_object('type', 'JOB', '$codec', 'seal/other', '$data', $2::text)`, "c2VjcmV0")
	insert("broken", `jsonb_build_object('type', 'JOB', '$codec', 'seal/test', '$data', 'no base64, but a secret')`)
	for id, want := range map[string]struct {
		outcomes []string
		err      string
	}{
		"copied": {
			[]string{taskdb.OutcomeFailed},
			`payload of type JOB is encoded by "seal/test": invalid: it was changed, or is another task's, ` +
				`or of another secret with the same ID`,
		},
		"of another key": {
			[]string{taskdb.OutcomeRetried, taskdb.OutcomeFailed},
			`payload of type JOB is encoded by "seal/other": unknown codec: this key is not among those given`,
		},
		"broken": {
			[]string{taskdb.OutcomeFailed},
			`invalid: payload of type JOB must have $codec and $data, both texts, and no other field but type`,
		},
	} {
		s.Is(id, store.StatusFailed, want.outcomes...)
		if got := s.ErrorOf(id); got != want.err {
			t.Errorf("%s: %q, want %q", id, got, want.err)
		}
	}
	if len(ran) != 0 {
		t.Errorf("a handler ran with %q", <-ran)
	}
}

// A node without the codec runs nothing of what is encoded, not even with an empty payload; another one does.
func TestNodeWithoutTheCodec(t *testing.T) {
	s := newBench(t)
	codec := s.Seal()
	without := s.prepare(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		t.Errorf("ran with %q", task.Payload.Name)
		return nil
	}))
	without.begin()
	s.Add("a", nil)
	without.batch(1, 0)
	s.Is("a", store.StatusQueued, taskdb.OutcomeRetried)
	if got, want := s.ErrorOf("a"),
		`payload of type JOB is encoded by "seal/test": unknown codec: none is configured`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.node(func(c *Config) { c.Codec = codec })
	a := s.Begins("a")
	if a.Payload.Name != "a" {
		t.Errorf("ran with %q", a.Payload.Name)
	}
	a.End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
}

// Follow-ups that cannot be encoded fail the attempt, and nothing of it remains: also not of a handler's transaction.
// One that never can be fails the task.
func TestFollowUpsThatCannotBeEncoded(t *testing.T) {
	s := newBench(t)
	codec := s.Seal()
	s.Exec(`CREATE TABLE public.effects (attempt int)`)
	var down atomic.Bool
	s.node(func(c *Config) {
		c.Codec = failing{codec, func() error {
			if down.Load() {
				return errors.New("the key service is down")
			}
			return nil
		}, nil}
	},
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			down.Store(task.Attempt == 1)
			name := "after"
			if task.ID == "too much" {
				name = strings.Repeat("x", 200<<10)
			}
			if task.ID != "after" {
				task.FollowUp(store.Task{
					ID: "after", Payload: enginetest.Job{Name: name}, At: time.Now().Add(time.Hour),
				})
			}
			return nil
		}),
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[quick]) error {
			down.Store(task.Attempt == 1)
			task.FollowUp(store.Task{
				ID: "tx after", Payload: enginetest.Job{Name: "tx after"}, At: time.Now().Add(time.Hour),
			})
			_, err := tx.Exec(ctx, `INSERT INTO public.effects VALUES ($1)`, task.Attempt)
			return err
		}))
	s.Add("plain", nil)
	s.Is("plain", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
	s.Add("tx", func(task *store.Task) { task.Payload = quick{"tx"} })
	s.Is("tx", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
	if n := s.Count(`SELECT sum(attempt) FROM public.effects`); n != 2 {
		t.Errorf("effects of attempts that add up to %d", n)
	}
	s.Add("too much", func(task *store.Task) { task.MaxAttempts = 2 })
	s.Is("too much", store.StatusFailed, taskdb.OutcomeRetried, taskdb.OutcomeFailed)
	if got := s.ErrorOf("too much"); !strings.Contains(got, "payload must be at most 256 KiB of JSON text, got 2731") {
		t.Errorf("error %q", got)
	}
	for _, id := range []string{"after", "tx after"} {
		row := enginetest.Await(t, s.Pool, id, patience, store.StatusQueued)
		if got, err := s.Tasks.Payload(t.Context(), row); err != nil || !json.Valid(got) ||
			!strings.Contains(string(got), id) {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
}

// Decoding may take longer than an answer of the gate holds: then it is asked again, and what was edited
// meanwhile does not run.
func TestDecodingThatTakesLong(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"edited", "left"} {
		t.Run(id, func(t *testing.T) {
			s := newBench(t)
			codec := s.Seal()
			decoding := make(chan chan struct{})
			s.node(func(c *Config) {
				c.Codec = failing{codec, nil, func() error {
					end := make(chan struct{})
					decoding <- end
					<-end
					return nil
				}}
			})
			s.Add(id, nil)
			end := enginetest.Receive(t, decoding, patience, "it is decoded")
			let := time.After(gateValid + 50*time.Millisecond)
			if id == "edited" {
				s.Did(s.Tasks.Cancel(t.Context(), s.Pool, id))
			}
			<-let
			gate := time.Now()
			close(end)
			if id == "edited" {
				s.Is(id, store.StatusCancelled, taskdb.OutcomeCancelled)
				s.Idle(id)
				return
			}
			a := s.Begins(id)
			if a.StartedAt.Before(gate.Add(-gateValid)) {
				t.Errorf("started by a gate of %s before it was decoded", gate.Sub(a.StartedAt))
			}
			a.End <- nil
			s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
		})
	}
}
