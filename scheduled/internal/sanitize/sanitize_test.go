package sanitize

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestScrub(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		"plain ünïcode \U0001F600":     "plain ünïcode \U0001F600",
		"tab\tline\n\x01\x7f":          "tab\tline\n\x01\x7f", // Postgres takes these
		"a\x00b\x00":                   "a\uFFFDb\uFFFD",
		"\xff\xfe\xfd":                 "\uFFFD",
		"a\xc3":                        "a\uFFFD",
		"\xed\xa0\x80":                 "\uFFFD", // half a surrogate pair in UTF-8
		strings.Repeat("x", maxText):   strings.Repeat("x", maxText),
		strings.Repeat("x", maxText+1): strings.Repeat("x", maxText-3) + "…",
		strings.Repeat("x", maxText-4) + "€€...": strings.Repeat("x", maxText-4) + "…", // no character is cut in two
		strings.Repeat("\x00", maxText):          strings.Repeat("\uFFFD", maxText/3-1) + "…",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestScrubJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":["\u0000",`, 200) + `1` + strings.Repeat(`]}`, 200)
	for encoded, want := range map[string]string{
		`null`:                              `null`,
		`{"a":1.10,"b":[1e400,-0]}`:         `{"a":1.10,"b":[1e400,-0]}`,
		`"a\u0000b"`:                        "\"a\uFFFDb\"",
		`"\ud800"`:                          "\"\uFFFD\"",
		`"\udc00\ud800x"`:                   "\"\uFFFD\uFFFDx\"",
		`"\ud83d\ude00"`:                    "\"\U0001F600\"",
		`{"\u0000":{"\ud800":"\u0000"}}`:    "{\"\uFFFD\":{\"\uFFFD\":\"\uFFFD\"}}",
		`{"a\u0000":1,"a\ufffd":1}`:         "{\"a\uFFFD\":1}",
		`[12345678901234567890.1,"\u0041"]`: `[12345678901234567890.1,"A"]`, // no rounding on the way
		"\"\xff\"":                          "\"\uFFFD\"",
		`"\\u0000"`:                         `"\\u0000"`, // a backslash, not an escape
		`"\\\u0000"`:                        "\"\\\\\uFFFD\"",
		deep:                                strings.ReplaceAll(deep, `\u0000`, "\uFFFD"),
	} {
		if got := JSON(json.RawMessage(encoded)); string(got) != want {
			t.Errorf("%s is %s, want %s", encoded, got, want)
		}
	}
	// Two keys that become one, at every level.
	keys := strings.Repeat(`{"a\ufffd":1,"a\u0000":`, 60) + `1` + strings.Repeat(`}`, 60)
	if got := JSON(json.RawMessage(keys)); !json.Valid(got) {
		t.Errorf("%s is %s", keys, got)
	}
	if got := JSON(nil); got != nil {
		t.Errorf("nothing is %s", got)
	}
}

// A value that fits jsonb comes back the same; every other becomes one that fits.
func FuzzScrubJSON(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `[1,2.50,1e10]`, `"\u0000\ud800\udc00\\u0000"`, `{"a":{"b\u0000":["\ud800"]},"a":1}`,
		"\"\xff\x00\"", `"\\\u0000"`, `{"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9\u0000":9}`, `-0.0`,
		"[\"\xed\xa0\x80\"]", `"<>&\u2028"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if !json.Valid(encoded) {
			return // Result gives valid JSON, if perhaps in invalid UTF-8
		}
		got := JSON(encoded)
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("%q is %q", encoded, got)
		}
		if again := JSON(bytes.Clone(got)); !sameJSON(t, again, got) {
			t.Errorf("%q is %q, and that is %q", encoded, got, again)
		}
		escapes := bytes.ReplaceAll(got, []byte(`\\`), nil)
		if bytes.Contains(escapes, []byte(`\u0000`)) || bytes.Contains(escapes, []byte(`\ud`)) {
			t.Errorf("%q is %q", encoded, got)
		}
		if utf8.Valid(encoded) && !bytes.Contains(encoded, []byte(`\u`)) && !bytes.Equal(encoded, got) {
			t.Errorf("%q is %q, and needed no change", encoded, got)
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var values [2]any
	for i, encoded := range [][]byte{a, b} {
		decoder := json.NewDecoder(bytes.NewReader(encoded))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// FuzzScrub: what comes out fits a text of Postgres, begins with what needs no change, and is bounded.
func FuzzScrub(f *testing.F) {
	f.Add("a\x00b\xff")
	f.Add(strings.Repeat("€", maxText))
	f.Add(strings.Repeat("\x00", maxText-1))
	f.Add(strings.Repeat("x", maxText-1) + "\xe2\x82")
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > maxText {
			t.Errorf("%q is %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("%q is %q, and that is %q", text, got, again)
		}
		good := 0 // how much of its beginning needs no change
		for good < min(len(text), maxText-len("…")) {
			r, size := utf8.DecodeRuneInString(text[good:])
			if r == 0 || r == utf8.RuneError && size == 1 || good+size > maxText-len("…") {
				break
			}
			good += size
		}
		if !strings.HasPrefix(got, text[:good]) || good == len(text) && got != text {
			t.Errorf("%q is %q, and needed no change up to %d", text, got, good)
		}
	})
}

// What comes out of the scrubs is what the real thing takes.
func TestPostgresTakesWhatIsScrubbed(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	hard := "\x00\xff\xed\xa0\x80\ud7ff\uffff\U0010ffff\u2028\x1f\"\\"
	var text, value string
	encoded := json.RawMessage(`{"a\u0000":["\ud800","\udfff\ud800","\u0000","\ud83d\ude00",1e100],"` + "\xff" + `":0}`)
	if err := pool.QueryRow(
		t.Context(), `SELECT $1::text, $2::jsonb`, Text(hard), string(JSON(encoded)),
	).Scan(&text, &value); err != nil {
		t.Fatal(err)
	}
	if text != Text(hard) || !strings.Contains(value, "\U0001F600") {
		t.Errorf("%q, %s", text, value)
	}
}
