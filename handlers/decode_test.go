package handlers_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

type strict struct {
	Count  int            `json:"count"`
	At     time.Time      `json:"at"`
	Quoted int            `json:"quoted,string"`
	Number json.Number    `json:"number"`
	Bytes  []byte         `json:"bytes"`
	Byte   uint8          `json:"byte"`
	Nested map[string]int `json:"nested"`
	Own    ownText        `json:"own"`
}

func (strict) TaskType() string { return "STRICT" }

// ownText refuses all, and quotes it.
type ownText struct{}

func (*ownText) UnmarshalText(text []byte) error {
	_, err := time.ParseDuration(string(text))
	return err
}

// The texts of errors end up in logs and in the history: they name the field, or the rule, and no value.
func TestWhatDoesNotDecodeIsNotShown(t *testing.T) {
	t.Parallel()
	registry := registryOf(t, part[strict]())
	for payload, want := range map[string]string{
		`{"count":7788.99}`:             "cannot unmarshal number into Go struct field strict.count of type int",
		`{"count":"canary"}`:            "cannot unmarshal string into Go struct field strict.count of type int",
		`{"byte":7788}`:                 "cannot unmarshal number into Go struct field strict.byte of type uint8",
		`{"nested":{"canary":"x"}}`:     "cannot unmarshal string into Go struct field strict.nested of type int",
		`{"at":"canary"}`:               "parsing time … as …: cannot parse … as …",
		`{"at":"can\"ary canary\\"}`:    "parsing time …",
		`{"quoted":"canary"}`:           "json: ",
		`{"quoted":7788}`:               "json: ",
		`{"number":"canary"}`:           "json: invalid number literal, trying to unmarshal … into Number",
		`{"bytes":"canary!"}`:           "illegal base64 data",
		`{"own":"canary"}`:              "time: invalid duration …",
		`{"own":"7788 \"canary\" \\x"}`: "time: ",
		`["canary"]`:                    "cannot unmarshal array into Go value of type handlers_test.strict",
	} {
		err := registry.Variant("STRICT").Run(t.Context(), &handlers.Execution{Payload: json.RawMessage(payload)})
		var permanent *handlers.PermanentError
		if !errors.As(err, &permanent) || !strings.HasPrefix(err.Error(), "payload does not decode: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", payload, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "7788")) {
			t.Errorf("%s: shows the value: %v", payload, err)
		}
	}
	err := registry.Variant("STRICT").Run(t.Context(), &handlers.Execution{Payload: json.RawMessage(`{"at":"canary"}`)})
	var whole *time.ParseError
	if !errors.As(err, &whole) || !strings.Contains(whole.Error(), "canary") {
		t.Errorf("middleware cannot look into it: %v", err)
	}
}
