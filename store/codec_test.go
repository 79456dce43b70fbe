package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/seal"
)

// secret is a codec with a key of that number, and those before it.
func secret(t *testing.T, n byte) store.Codec {
	t.Helper()
	var keys []seal.Key
	for ; n > 0; n-- {
		keys = append(keys, seal.Key{ID: fmt.Sprint(n), Secret: bytes.Repeat([]byte{n}, 32)})
	}
	codec, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// coded is a codec of the tests' own: it turns the text round, and breaks as it is told to.
type coded struct {
	name string
	err  error
}

func (c coded) Encode(_ context.Context, _, _ string, plain []byte) (string, []byte, error) {
	return c.name, reversed(plain), c.err
}

func (c coded) Decode(_ context.Context, name, _, _ string, data []byte) ([]byte, error) {
	if name != c.name {
		return nil, store.ErrUnknownCodec
	}
	return reversed(data), c.err
}

func reversed(text []byte) []byte {
	turned := make([]byte, len(text))
	for i, b := range text {
		turned[len(text)-1-i] = b
	}
	return turned
}

// In the table only the type is in the clear, by whatever way a task was scheduled; and what is the same
// again changes nothing.
func TestPayloadsAreEncoded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Tasks = store.New(store.Config{Service: service, Codec: secret(t, 1)})
	daily := recurs("daily")
	synced := store.Task{ID: "synced", Payload: payload(1), At: far(0)}
	many := []store.Task{base("many 1"), base("many 2"), daily}
	for i := range 25 {
		many = append(many, base(fmt.Sprintf("bulk %02d", i)))
	}
	for round, want := range []store.Outcome{store.Created, store.Unchanged} {
		receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, many)
		b.Check(err)
		more, err := b.Tasks.Sync(b.Ctx, b.Pool, "event:9", synced)
		b.Check(err)
		for _, receipt := range append(append(receipts, more...), b.Schedule(base("one"))) {
			if receipt.Outcome != want {
				t.Errorf("round %d: %s is %s, want %s", round+1, receipt.ID, receipt.Outcome, want)
			}
		}
	}
	b.Exec(b.Pool, `SELECT tasktable.fork_occurrence('daily', '2100-01-01 09:00Z')`)
	b.succeeds(b.Tasks.RunNow(b.Ctx, b.Pool, "daily")) // at an instant with a fraction

	rows, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{})
	b.Check(err)
	if len(rows) != 28+2+2 {
		t.Errorf("%d tasks", len(rows))
	}
	for _, row := range rows {
		var fields map[string]string
		b.Check(json.Unmarshal(row.Payload, &fields))
		if len(fields) != 3 || fields["type"] != "TEST" || fields["$codec"] != "seal/1" || row.Type != "TEST" {
			t.Errorf("%s: stored is %s", row.ID, row.Payload)
		}
		if got, err := b.Tasks.Payload(b.Ctx, row); err != nil || string(got) != `{"n":1,"type":"TEST"}` {
			t.Errorf("%s: payload %s, %v", row.ID, got, err)
		}
	}
}

// The same content is the same, whoever wrote it and however.
func TestSameContentIsEncodedAlike(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Tasks = store.New(store.Config{Service: service, Codec: coded{name: "turned"}})
	same := func(text string) store.Outcome {
		t.Helper()
		return b.Schedule(store.Task{ID: "a", Payload: store.JSON(text), At: far(0)}).Outcome
	}
	const first = `{"type":"TEST","a":[1,2.50,-0.0,1e2,1E-3],"b":{"y":"<ü>","x":null},"long":12345678901234567890.10}`
	if got := same(first); got != store.Created {
		t.Error(got)
	}
	for _, text := range []string{
		first,
		`{ "b" : {"x":null, "y":"\u003c\u00fc\u003e"}, "a":[1, 2.5, 0, 100, 0.001], "long": 12345678901234567890.1, ` +
			`"type":"TEST" }`,
		one[string](b, b.Pool, `SELECT ($1::text::jsonb)::text`, first), // as Postgres writes it
	} {
		if got := same(text); got != store.Unchanged {
			t.Errorf("%s is %s", text, got)
		}
	}
	for _, text := range []string{
		strings.Replace(first, "2.50", "2.51", 1), strings.Replace(first, "90.10", "90.11", 1),
		strings.Replace(first, "[1,2.50", "[2.50,1", 1),
	} {
		if got := same(text); got != store.Rescheduled {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// A new key, or the first, makes each waiting task that is scheduled again an edited one, once. One that
// has ended stays.
func TestCodecsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("ended", "COMPLETED")
	for i, codec := range []store.Codec{
		nil, secret(t, 1), secret(t, 2), store.Codecs(coded{name: "turned"}, secret(t, 2)), nil,
	} {
		b.Tasks = store.New(store.Config{Service: service, Codec: codec})
		want := []store.Outcome{store.Rescheduled, store.Unchanged}
		if i == 0 {
			want[0] = store.Created
		}
		if codec != nil { // what the one before has made it reads
			got, err := b.Tasks.Payload(b.Ctx, *b.Get("a"))
			if err != nil || string(got) != `{"n":1,"type":"TEST"}` && string(got) != `{"n": 1, "type": "TEST"}` {
				t.Errorf("codec %d reads %s, %v", i, got, err)
			}
		}
		for _, want := range want {
			if got := b.Schedule(base("a")).Outcome; got != want {
				t.Errorf("codec %d: %s, want %s", i, got, want)
			}
		}
		if got := b.Schedule(base("ended")).Outcome; got != store.Finished {
			t.Errorf("codec %d: an ended task is %s", i, got)
		}
	}
}

// What cannot be decoded is an error that says why, with nothing of the payload.
func TestWhatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	sealed := func(codec store.Codec, id string) json.RawMessage {
		t.Helper()
		task, err := store.Task{ID: id, Payload: payload(1)}.Encoded(t.Context(), codec)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(task.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	errDown := errors.New("the key service is down")
	known := secret(t, 1)
	for name, test := range map[string]struct {
		codec   store.Codec
		id      string
		payload string
		is      error // nil: it can be
		says    string
	}{
		"plain":           {known, "a", `{"n":1,"type":"TEST"}`, nil, ""},
		"plain, no codec": {nil, "a", `{"n":1,"type":"TEST"}`, nil, ""},
		"the word alone":  {nil, "a", `{"type":"TEST","note":"\"$codec\"","in":{"$codec":"x"}}`, nil, ""},
		"encoded":         {known, "a", string(sealed(known, "a")), nil, ""},
		"an occurrence's own": {
			known, "a@2100-01-01T00:00:00Z", string(sealed(known, "a@2100-01-01T00:00:00Z")), nil, "",
		},
		"an occurrence's": {known, "a@2100-01-01T00:00:00.123456Z", string(sealed(known, "a")), nil, ""},
		"no occurrence's": {
			known, "a@home", string(sealed(known, "a")), store.ErrInvalid,
			`payload of type TEST is encoded by "seal/1": invalid: it was changed`,
		},
		"another task's": {
			known, "b", string(sealed(known, "a")), store.ErrInvalid, "it was changed, or is another task's",
		},
		"no codec": {
			nil, "a", string(sealed(known, "a")), store.ErrUnknownCodec,
			`payload of type TEST is encoded by "seal/1": unknown codec: none is configured`,
		},
		"a key that is not there": {
			known, "a", string(sealed(secret(t, 2), "a")), store.ErrUnknownCodec,
			`by "seal/2": unknown codec: this key is not among those given`,
		},
		"none of several": {
			store.Codecs(known, coded{name: "turned"}), "a", string(sealed(secret(t, 2), "a")), store.ErrUnknownCodec,
			"seal/2",
		},
		"the codec's own error": {
			coded{"turned", errDown}, "a", string(sealed(coded{name: "turned"}, "a")), errDown,
			`by "turned": the key service is down`,
		},
		"no data": {
			known, "a", `{"type":"TEST","$codec":"seal/1","n":1}`, store.ErrInvalid,
			"must have $codec and $data, both texts, and no other field but type",
		},
		"data that is no base64": {
			known, "a", `{"type":"TEST","$codec":"seal/1","$data":"4242 4242"}`, store.ErrInvalid, "both texts",
		},
		"a name that is a number": {
			known, "a", `{"type":"TEST","$codec":4242,"$data":""}`, store.ErrInvalid, "both texts",
		},
		"another field": {
			known, "a", `{"type":"TEST","$codec":"seal/1","$data":"","card":"4242"}`, store.ErrInvalid,
			"no other field",
		},
		"a long name from the table": {
			known, "a", `{"type":"TEST","$codec":"` + strings.Repeat("x", 999) + `","$data":""}`, store.ErrUnknownCodec,
			strings.Repeat("x", 100),
		},
		"nothing behind the envelope": {
			known, "a", `{"type":"TEST","$codec":"seal/1","$data":null}`, store.ErrInvalid, "cut short",
		},
	} {
		got, err := store.Decoded(t.Context(), test.codec, "TEST", test.id, json.RawMessage(test.payload))
		if !errors.Is(err, test.is) || (err == nil) != (test.is == nil) ||
			err != nil && (!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "4242") ||
				len(err.Error()) > 400) {
			t.Errorf("%s: %s, %v, want %q", name, got, err, test.says)
		}
		if err == nil && !strings.HasPrefix(name, "plain") && name != "the word alone" &&
			string(got) != `{"n":1,"type":"TEST"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A codec that fails, or makes what cannot be stored, fails the call before the database is asked.
func TestWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	errDown := errors.New("the key service is down")
	big := store.JSON(`{"type":"TEST","text":"` + strings.Repeat("x", 200<<10) + `"}`)
	for want, test := range map[string]struct {
		codec   store.Codec
		payload store.Payload
		is      error
	}{
		"encode payload of type TEST: the key service is down": {coded{"turned", errDown}, payload(1), errDown},
		"codec must have a name of 1 to 128 printable ASCII characters": {
			coded{name: ""}, payload(1), store.ErrInvalid,
		},
		`printable ASCII characters, got "a\nb"`: {coded{name: "a\nb"}, payload(1), store.ErrInvalid},
		"128 printable ASCII characters, got \"xx": {
			coded{name: strings.Repeat("x", 129)}, payload(1), store.ErrInvalid,
		},
		"payload must be at most 256 KiB of JSON text, got 273189 bytes, type TEST, encoded": {
			secret(t, 1), big, store.ErrInvalid,
		},
		`payload must have no field "$codec", which says by what Codec it is encoded, got one`: {
			secret(t, 1), store.JSON(`{"type":"TEST","$codec":1}`), store.ErrInvalid,
		},
	} {
		tasks := store.New(store.Config{Service: service, Codec: test.codec})
		tx := b.Begin(pgx.TxOptions{})
		_, err := tasks.Schedule(b.Ctx, tx, store.Task{ID: "a", Payload: test.payload})
		_, errMany := tasks.ScheduleMany(b.Ctx, tx, []store.Task{base("b"), {ID: "a", Payload: test.payload}})
		_, errSync := tasks.Sync(b.Ctx, tx, "event:1", store.Task{ID: "a", Payload: test.payload})
		for _, err := range []error{err, errMany, errSync} {
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		b.Check(tx.Commit(b.Ctx)) // it can go on
	}
	if n := one[int](b, b.Pool, `SELECT count(*)::int FROM tasktable.scheduled_tasks`); n != 0 {
		t.Errorf("%d tasks", n)
	}
}

func TestPayloadsWithoutACodecCostNothing(t *testing.T) {
	ctx, text := t.Context(), json.RawMessage(`{"type": "TEST", "n": 1}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = store.Decoded(ctx, nil, "TEST", "a", text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Reconcile leaves an encoded payload alone where the query has none, also without the codec; and refuses what it
// could only guess.
func TestReconcileAndEncodedPayloads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	withKey, without := store.New(store.Config{Service: service, Codec: secret(t, 1)}), b.Tasks
	b.Tasks = withKey
	for _, id := range []string{"agrees", "moves", "differs"} {
		b.Schedule(base(id))
	}
	before := map[string]string{}
	for _, id := range []string{"agrees", "moves", "differs"} {
		before[id] = string(b.Get(id).Payload)
	}
	query := func(columns string) store.ReconcileConfig {
		return store.ReconcileConfig{Apply: true, Query: `SELECT id, CASE id WHEN 'moves'
			THEN timestamptz '2100-01-01 00:05Z'
			ELSE '2100-01-01 00:00Z' END AS scheduled_at ` + columns +
			` FROM (VALUES ('agrees'), ('moves'), ('differs')) AS v (id)`}
	}
	payloads := query(`, jsonb_build_object('n', CASE id WHEN 'differs' THEN 2.0 ELSE 1.0 END) AS payload`)

	b.Tasks = without
	_, err := b.reconcile(payloads)
	b.wantInvalid(err, "payload of the task is encoded: without its Codec it cannot be compared")
	b.Tasks = store.New(store.Config{Service: service, Codec: coded{name: "turned"}})
	if _, err := b.reconcile(payloads); !errors.Is(err, store.ErrUnknownCodec) ||
		!strings.Contains(err.Error(), `row "agrees"`) {
		t.Errorf("with another codec: %v", err)
	}
	for id, payload := range before {
		if got := string(b.Get(id).Payload); got != payload {
			t.Errorf("%s was changed to %s", id, got)
		}
	}

	b.Tasks = without
	report, err := b.reconcile(query(""))
	b.Check(err)
	b.wantCounts(report, "agree 2, finished 0, missing 0, cancelled 0, ended 0, time 1, content 0, orphaned 0")
	for id, payload := range before {
		if got := string(b.Get(id).Payload); got != payload {
			t.Errorf("%s: the payload has become %s", id, got)
		}
	}

	b.Tasks = withKey
	report, err = b.reconcile(payloads)
	b.Check(err)
	b.wantCounts(report, "agree 2, finished 0, missing 0, cancelled 0, ended 0, time 0, content 1, orphaned 0")
	for id, want := range map[string]string{
		"agrees": `{"n":1,"type":"TEST"}`, "moves": `{"n":1,"type":"TEST"}`, "differs": `{"n":2,"type":"TEST"}`,
	} {
		if got, err := b.Tasks.Payload(b.Ctx, *b.Get(id)); err != nil || string(got) != want ||
			strings.Contains(string(b.Get(id).Payload), `"n"`) {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
}

// A change of the key asks for nothing new: a waiting task is encoded anew and keeps its idempotency key, and a running
// one is left alone. What differs besides counts as ever.
func TestAChangedKeyKeepsTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for rotation, codecs := range map[string][2]store.Codec{
		"a new key":                 {secret(t, 1), secret(t, 2)},
		"a key that is to come":     {secret(t, 2), former(t, secret(t, 2))},
		"another codec":             {coded{name: "turned"}, store.Codecs(secret(t, 1), coded{name: "turned"})},
		"another codec and its own": {secret(t, 1), store.Codecs(coded{name: "turned"}, secret(t, 2))},
	} {
		before, after := codecs[0], codecs[1]
		for _, way := range recurringWays[:2] { // one and many
			for i, c := range []struct {
				kind    string
				change  func(*store.Task)
				outcome store.Outcome
				anew    bool // the payload is encoded by the new codec
				draws   bool
			}{
				{"QUEUED", func(*store.Task) {}, store.Rescheduled, true, false},
				{"PAUSED", func(*store.Task) {}, store.Rescheduled, true, false},
				{"CANCELLED", func(*store.Task) {}, store.Rearmed, true, false},
				{"COMPLETED", func(*store.Task) {}, store.Finished, false, false},
				{"EXECUTING", func(*store.Task) {}, store.Unchanged, false, false},
				{"EXECUTING", func(task *store.Task) { task.Priority = 7 }, store.Rescheduled, false, false},
				{"QUEUED", func(task *store.Task) { task.Payload = payload(2) }, store.Rescheduled, true, true},
				{"EXECUTING", func(task *store.Task) { task.Payload = payload(2) }, store.Rescheduled, true, true},
				{"QUEUED", func(task *store.Task) { task.At = far(5) }, store.Rescheduled, true, true},
			} {
				id := fmt.Sprintf("%s, %s, %d %s", rotation, way.name, i, c.kind)
				task := base(id)
				b.Make(id, c.kind)
				encoded, err := task.Encoded(b.Ctx, before)
				b.Check(err)
				b.InTx(func(tx pgx.Tx) { // as if it had been scheduled by the codec
					b.Exec(tx, `SET LOCAL session_replication_role = replica`) // no triggers
					b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET payload = $2::text::jsonb WHERE id = $1`, id,
						string(must(json.Marshal(encoded.Payload))))
				})
				was := b.Get(id)
				c.change(&task)
				b.Tasks = store.New(store.Config{Service: service, Codec: after})
				receipt, err := way.call(b, task)
				b.Check(err)
				row := b.Get(id)
				plain, err := b.Tasks.Payload(b.Ctx, *row)
				b.Check(err)
				want, _ := json.Marshal(task.Payload)
				if receipt.Outcome != c.outcome || (row.AskedRevision != was.AskedRevision) != c.draws ||
					(string(row.Payload) != string(was.Payload)) != c.anew ||
					c.outcome != store.Finished && !sameJSON(plain, want) {
					t.Errorf("%s: %s, key %d after %d, payload %s", id, receipt.Outcome, row.AskedRevision,
						was.AskedRevision, plain)
				}
			}
		}
	}
}

// former is the codec with the key before the newest one first.
func former(t *testing.T, codec store.Codec) store.Codec {
	t.Helper()
	return codec.(store.Rotated).Former()[0]
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
