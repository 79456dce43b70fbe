package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// raw is a variant that hands on JSON from elsewhere.
type raw struct {
	Value   json.RawMessage `json:"value"`
	Padding string          `json:"padding"`
}

func (raw) TaskType() string { return "TEST" }

// storedSize is the length of what Postgres makes of a payload's text, or an error if it makes nothing of it.
func (b *bench) storedSize(body string) (size int, err error) {
	return size, b.Pool.QueryRow(b.Ctx, `SELECT octet_length(($1::text::jsonb)::text)`, body).Scan(&size)
}

// storable asks the table's own rules.
func (b *bench) storable(body string) error {
	var size int
	return b.Pool.QueryRow(
		b.Ctx, `SELECT octet_length(($1::text::jsonb)::tasktable.task_payload::text)`, body,
	).Scan(&size)
}

// Go's checks and the database's agree, in both directions, and on the byte: what Go lets pass cannot end the caller's
// transaction, and it forbids nothing that could be stored.
func TestPayloadsAreStorableExactlyIfGoAcceptsThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	accepted, refused := 0, 0
	for range 250 {
		task := store.Task{Payload: raw{Value: json.RawMessage(randomJSON(random, 4))}}
		body := encode(task.Payload)
		goErr, dbErr := task.Check(), b.storable(body)
		if goErr != nil && !errors.Is(goErr, store.ErrInvalid) {
			t.Errorf("%q: %v", body, goErr)
		}
		if (goErr == nil) != (dbErr == nil) {
			t.Errorf("%q:\nGo:       %v\nPostgres: %v", body, goErr, dbErr)
		}
		if goErr != nil {
			refused++
			continue
		}
		accepted++
		if accepted%12 == 0 {
			b.checkLimit(task.Payload.(raw), body)
		}
	}
	if accepted < 60 || refused < 5 {
		t.Errorf("%d accepted and %d refused: the test has lost its teeth", accepted, refused)
	}
}

// encode is the payload as the store sends it.
func encode(payload store.Payload) string {
	body, err := json.Marshal(payload)
	if err != nil {
		return "not JSON: " + err.Error()
	}
	return fmt.Sprintf(`{"type":"TEST",%s`, body[1:])
}

// checkLimit pads a payload to the limit, and to one byte more.
func (b *bench) checkLimit(payload raw, body string) {
	b.Helper()
	size, err := b.storedSize(body)
	b.Check(err)
	if size > store.MaxPayloadBytes {
		return
	}
	payload.Padding = strings.Repeat("x", store.MaxPayloadBytes-size)
	most := store.Task{Payload: payload}
	goErr, dbErr := most.Check(), b.storable(encode(payload))
	payload.Padding += "x"
	more := store.Task{Payload: payload}
	if goErr != nil || dbErr != nil || more.Check() == nil || b.storable(encode(payload)) == nil {
		b.Errorf("%q, padded to 256 KiB: Go %v, Postgres %v; and a byte more: Go %v", body, goErr, dbErr, more.Check())
	}
}

// randomJSON is JSON such as no sane program writes.
func randomJSON(random *rand.Rand, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch random.IntN(kinds) {
	case 0:
		return pick(random, "true", "false", "null", "0", "-0", "-0.00", `""`)
	case 1, 2:
		return randomNumber(random)
	case 3:
		return randomString(random)
	case 4:
		var elements []string
		for range random.IntN(4) {
			elements = append(elements, randomJSON(random, depth-1))
		}
		return "[" + strings.Join(elements, pick(random, ",", " ,\n\t")) + "]"
	default:
		var fields []string
		for i := range random.IntN(4) {
			fields = append(
				fields,
				fmt.Sprintf(
					`"%d%s%s%s`, i, randomString(random)[1:], pick(random, ":", " : "), randomJSON(random, depth-1),
				),
			)
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
}

func randomNumber(random *rand.Rand) string {
	number := pick(random, "", "-") + pick(random, "0", "1", "7", "10", "900", "12345678901234567890")
	number += pick(random, "", "", ".0", ".5", ".000", ".0001000", ".123456789012345678901234567890")
	switch random.IntN(12) {
	case 0:
		return number + pick(
			random, "e131071", "E+131072", "e-16383", "e-16384", "e16383", "e131050", "e-16350", "e200000", "e-200000",
			"e2147483648", "e-99999999999999999999",
		)
	case 1, 2, 3:
		return number + pick(random, "e", "E") + pick(random, "", "+", "-") +
			pick(random, "0", "00", "1", "3", "007", "25", "308")
	default:
		return number
	}
}

func randomString(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(6) {
		if random.IntN(20) == 0 {
			text.WriteString(pick(
				random, `\u0000`, `\ud83d`, `\ude00`, `\ud83d\ud83d`, `\uDBFFx`, `\ude00\ud83d`, `\ud83dA`, "\xff",
			))
			continue
		}
		text.WriteString(
			pick(random, "a", "é", "€", "😀", "\u2028", "\u007f", "<", "&", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`,
				`\t`, `\u0001`, `\u001f`, `\u0008`, `\u000A`, `\u0022`, `\u005c`, `\u002f`, `\u007f`, `\u00e9`,
				`\u20AC`, `\ud83d\ude00`, `\uDBFF\uDFFF`, `\\u0000`, `\\ud83d`),
		)
	}
	return `"` + text.String() + `"`
}

func pick(random *rand.Rand, of ...string) string { return of[random.IntN(len(of))] }

// What is at the limit goes through whole, alone and in bulk.
func TestPayloadAtTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	most := store.Task{ID: "alone", Payload: sized(store.MaxPayloadBytes), At: far(0)}
	b.Schedule(most)
	most.ID = "among"
	b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{most, most}))
	for _, id := range []string{"alone", "among"} {
		if row := b.Get(id); len(row.Payload) != store.MaxPayloadBytes {
			t.Errorf("%s: %d bytes", id, len(row.Payload))
		}
	}
}

// The type is the payload's own, whatever else it holds.
func TestTheTypeIsAddedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		payload store.Payload
		want    string
	}{
		"no fields":           {plain{}, `{"Name": "", "type": "PLAIN"}`},
		"an empty object":     {pointer{}, `{"N": 0, "type": "POINTER"}`},
		"a pointer":           {&pointer{N: 3}, `{"N": 3, "type": "POINTER"}`},
		"the same type":       {clashing{Type: "CLASHING"}, `{"type": "CLASHING"}`},
		"a field Type":        {store.JSON(`{"Type":"x","type":"AB"}`), `{"Type": "x", "type": "AB"}`},
		"the other way round": {store.JSON(`{"type":"AB","TYPE":"x"}`), `{"TYPE": "x", "type": "AB"}`},
		"repeated":            {store.JSON(`{"type":"AB","n":1,"type":"CD","n":2}`), `{"n": 2, "type": "CD"}`},
		"escaped":             {store.JSON(`{"\u0074ype":"\u0041B"}`), `{"type": "AB"}`},
		"HTML":                {plain{Name: "<&>\u2028"}, "{\"Name\": \"<&>\u2028\", \"type\": \"PLAIN\"}"},
		"signs":               {store.JSON(`{"type":"a_-[]<>/.·:+"}`), `{"type": "a_-[]<>/.·:+"}`},
		"127 letters": {
			typed(strings.Repeat("·", 0) + strings.Repeat("A", 127)), `{"type": "` + strings.Repeat("A", 127) + `"}`,
		},
		"a backslash before u0": {plain{Name: `\u0000`}, `{"Name": "\\u0000", "type": "PLAIN"}`},
	} {
		b.Schedule(store.Task{ID: name, Payload: c.payload, At: far(0)})
		if row := b.Get(name); string(row.Payload) != c.want {
			t.Errorf("%s: %s instead of %s", name, row.Payload, c.want)
		}
	}
}
