package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/seal"
)

func key(id string, b byte) seal.Key { return seal.Key{ID: id, Secret: bytes.Repeat([]byte{b}, 32)} }

func codecOf(t *testing.T, keys ...seal.Key) *seal.Codec {
	t.Helper()
	codec, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

func encode(t *testing.T, codec *seal.Codec, kind, id, plain string) (name string, data []byte) {
	t.Helper()
	name, data, err := codec.Encode(t.Context(), kind, id, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return name, data
}

const plain = `{"card":"4242","type":"PAY"}`

// The bytes are for good: what is stored today is to be read in years.
func TestFormat(t *testing.T) {
	t.Parallel()
	name, data := encode(t, codecOf(t, key("a", 1)), "PAY", "task-PAY-7", plain)
	const want = "59700be31ee51d6f0a4af0e2da90e82fd9daccface55ff1506b7a8c657bb94fa" +
		"cbfcdd79f3f3afe5d3f30ac09f9af9c3f503e77593d1f356"
	if got := hex.EncodeToString(data); name != "seal/a" || got != want {
		t.Errorf("%s %s, want %s", name, got, want)
	}
}

// The same is the same again; what differs in anything is wholly different, and no part of it can be read.
func TestSameForTheSame(t *testing.T) {
	t.Parallel()
	codec := codecOf(t, key("a", 1))
	seen := map[string]string{}
	for _, of := range [][3]string{
		{"PAY", "task-PAY-7", plain}, {"PAY", "task-PAY-8", plain}, {"PAYT", "ask-PAY-7", plain},
		{"PAY", "task-PAY-7", plain + " "}, {"PAY", "task-PAY-7", ""},
	} {
		_, data := encode(t, codec, of[0], of[1], of[2])
		if _, again := encode(t, codecOf(t, key("a", 1), key("b", 2)), of[0], of[1], of[2]); !bytes.Equal(data, again) {
			t.Errorf("%v: %x, then %x", of, data, again)
		}
		if len(data) != 12+len(of[2])+16 || bytes.Contains(data, []byte("4242")) {
			t.Errorf("%v: %q", of, data)
		}
		if other, twice := seen[string(data[:12])]; twice {
			t.Errorf("%v has the nonce of %s", of, other)
		}
		seen[string(data[:12])] = fmt.Sprint(of)
		got, err := codec.Decode(t.Context(), "seal/a", of[0], of[1], data)
		if err != nil || string(got) != of[2] {
			t.Errorf("%v: decoded as %q, %v", of, got, err)
		}
	}
}

func TestRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	codec := codecOf(t, key("a", 1), key("b", 1))
	_, data := encode(t, codec, "PAY", "task-PAY-7", plain)
	refuses := func(what string, want error, name, kind, id string, data []byte) {
		t.Helper()
		got, err := codec.Decode(t.Context(), name, kind, id, data)
		if got != nil || !errors.Is(err, want) ||
			errors.Is(want, store.ErrUnknownCodec) && errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %q, %v, want %v", what, got, err, want)
		}
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		refuses(fmt.Sprintf("byte %d changed", i), store.ErrInvalid, "seal/a", "PAY", "task-PAY-7", changed)
		refuses(fmt.Sprintf("cut at byte %d", i), store.ErrInvalid, "seal/a", "PAY", "task-PAY-7", data[:i])
	}
	refuses("longer", store.ErrInvalid, "seal/a", "PAY", "task-PAY-7", append(bytes.Clone(data), 0))
	refuses("nothing", store.ErrInvalid, "seal/a", "PAY", "task-PAY-7", nil)
	refuses("another task's", store.ErrInvalid, "seal/a", "PAY", "task-PAY-8", data)
	refuses("another type's", store.ErrInvalid, "seal/a", "REFUND", "task-PAY-7", data)
	refuses("under another name, of the same secret", store.ErrInvalid, "seal/b", "PAY", "task-PAY-7", data)
	refuses("of a key that is not there", store.ErrUnknownCodec, "seal/c", "PAY", "task-PAY-7", data)
	refuses("of another codec", store.ErrUnknownCodec, "kms/a", "PAY", "task-PAY-7", data)
	refuses("of none", store.ErrUnknownCodec, "", "PAY", "task-PAY-7", data)
}

// In a change of keys every program can read what every other has written, one step apart.
func TestRotation(t *testing.T) {
	t.Parallel()
	former, next := key("2026", 1), key("2027", 2)
	steps := []*seal.Codec{codecOf(t, former), codecOf(t, former, next), codecOf(t, next, former), codecOf(t, next)}
	names := []string{"seal/2026", "seal/2026", "seal/2027", "seal/2027"}
	for i, writer := range steps {
		name, data := encode(t, writer, "PAY", "a", plain)
		if name != names[i] {
			t.Errorf("step %d encrypts by %s", i, name)
		}
		for j, reader := range steps {
			got, err := reader.Decode(t.Context(), name, "PAY", "a", data)
			if i-j <= 1 && j-i <= 1 && (err != nil || string(got) != plain) {
				t.Errorf("step %d reads of step %d: %q, %v", j, i, got, err)
			}
		}
	}
	name, data := encode(t, steps[0], "PAY", "a", plain)
	if _, err := steps[3].Decode(t.Context(), name, "PAY", "a", data); !errors.Is(err, store.ErrUnknownCodec) {
		t.Errorf("the old key is gone: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string][]seal.Key{
		"at least one key": nil,
		"ID of key 1 must be 1 to 64 letters, digits or ._-":  {key("", 1)},
		"ID of key 2 must be 1 to 64 letters, digits or ._-":  {key("a", 1), key("b/c", 1)},
		`Secret of key "a" must be 32 bytes, got 31`:          {{ID: "a", Secret: []byte(strings.Repeat("s", 31))}},
		`Secret of key "b" must be 32 bytes, got 0`:           {key("a", 1), {ID: "b"}},
		`ID "a" is of two keys`:                               {key("a", 1), key("a", 2)},
		"ID of key 1 must be 1 to 64 letters, digits or ._-]": {key(strings.Repeat("x", 65), 1)},
	} {
		codec, err := seal.New(keys...)
		if codec != nil || !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), strings.TrimSuffix(want, "]")) || strings.Contains(err.Error(), "sss") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if text := fmt.Sprintf(
		"%v %+v %#v %s", key("a", 's'), key("a", 's'), key("a", 's'), []seal.Key{key("a", 's')},
	); text != "a a a [a]" {
		t.Errorf("printed as %s", text)
	}
}
