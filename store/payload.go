package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store/internal/check"
)

// JSON is a Payload that is encoded already. It must be a JSON object with a field "type".
type JSON json.RawMessage

// TaskType returns the field "type", or "" if the text has none.
func (j JSON) TaskType() string {
	// A map, because encoding/json would read a key "Type" into a struct's field, too.
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(j, &fields) == nil {
		_ = json.Unmarshal(fields["type"], &name) // Schedule refuses a type that cannot be read, and tells the reason
	}
	return name
}

// MarshalJSON returns the text unchanged.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// methodOf returns the payload as an M, and whether it is one. If the methods of M have a pointer receiver and the
// payload is no pointer, it returns a pointer to a copy.
func methodOf[M any](payload Payload) (own M, ok bool) {
	if own, ok = payload.(M); ok {
		return own, true
	}
	value := reflect.ValueOf(payload)
	if !value.IsValid() || !reflect.PointerTo(value.Type()).Implements(reflect.TypeFor[M]()) {
		return own, false
	}
	pointer := reflect.New(value.Type())
	pointer.Elem().Set(value)
	own, ok = pointer.Interface().(M)
	return own, ok
}

func validate(payload Payload) error {
	if own, ok := methodOf[Validator](payload); ok {
		return own.Validate()
	}
	return nil
}

// encodePayload returns the payload as a JSON object. It puts the type in front as the first field, if the payload
// has no such field.
func encodePayload(payload Payload) (json.RawMessage, error) {
	name := payload.TaskType()
	if err := CheckType(name); err != nil {
		return nil, err
	}
	if err := validate(payload); err != nil {
		return nil, fmt.Errorf("%w: payload of type %s does not validate: %w", ErrInvalid, name, err)
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: payload of type %s cannot be encoded: %w", ErrInvalid, name, err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, check.Invalid("payload", "must encode as a JSON object", fmt.Sprintf("%T, type %s", payload, name))
	}
	if _, done := payload.(inEnvelope); !done && fields[codecField] != nil {
		return nil, check.Invalid("payload", `must have no field "$codec", which says by what Codec it is encoded`,
			"one, type "+name)
	}
	if own, ok := fields["type"]; ok {
		var stated string
		if json.Unmarshal(own, &stated) != nil || stated != name {
			return nil, check.Invalid("payload", fmt.Sprintf("must have no field type other than %q", name),
				shortened(string(own)))
		}
	} else {
		separator := ","
		if len(fields) == 0 {
			separator = ""
		}
		body = bytes.Join([][]byte{[]byte(`{"type":"`), []byte(name), []byte(`"`), []byte(separator),
			bytes.TrimPrefix(body, []byte("{"))}, nil)
	}
	return body, checkStorable(body, name)
}

// maxNesting is far below the limits of Postgres's parser and of encoding/json's.
const maxNesting = 1000

// checkStorable refuses JSON that cannot become jsonb. Postgres would refuse it too, but that would abort the
// caller's transaction.
func checkStorable(body []byte, name string) error {
	if !utf8.Valid(body) {
		return check.Invalid("payload", "must be UTF-8", "other bytes, type "+name)
	}
	scan := jsonbScan{rest: body}
	if rule, got := scan.run(); rule != "" {
		return check.Invalid("payload", rule, got+", type "+name)
	}
	if scan.size > MaxPayloadBytes {
		return check.Invalid("payload", "must be at most 256 KiB of JSON text",
			fmt.Sprintf("%d bytes, type %s", scan.size, name))
	}
	return nil
}

// jsonbScan reads valid JSON once. It counts the bytes of the text that Postgres makes of the jsonb, because the
// limit applies to that text: it has ", " and ": " between the parts, its escapes are resolved, and its numbers are
// written out (1e3 is 1000). Of a repeated key Postgres keeps only the last value, but jsonbScan counts all of them.
type jsonbScan struct {
	rest []byte
	size int
}

// run returns the rule that the JSON breaks, and the part that breaks it. The rule is "" if the JSON breaks none.
func (s *jsonbScan) run() (rule, got string) {
	nesting := 0
	for len(s.rest) > 0 && rule == "" {
		switch c := s.rest[0]; c {
		case ' ', '\t', '\n', '\r':
			s.take(1, 0)
		case ',', ':':
			s.take(1, 2)
		case '{', '[':
			if nesting++; nesting > maxNesting {
				return "must be nested at most 1000 deep", "more"
			}
			s.take(1, 1)
		case '}', ']':
			nesting--
			s.take(1, 1)
		case '"':
			rule, got = s.text()
		case 't', 'n':
			s.take(4, 4)
		case 'f':
			s.take(5, 5)
		default:
			rule, got = s.number()
		}
	}
	return rule, got
}

func (s *jsonbScan) take(bytes, size int) {
	s.rest = s.rest[bytes:]
	s.size += size
}

func (s *jsonbScan) text() (rule, got string) {
	s.take(1, 2) // both quotation marks
	for s.rest[0] != '"' {
		switch {
		case s.rest[0] != '\\':
			s.take(1, 1)
		case s.rest[1] == 'u':
			if rule, got = s.escape(); rule != "" {
				return rule, got
			}
		case s.rest[1] == '/':
			s.take(2, 1)
		default:
			s.take(2, 2)
		}
	}
	s.take(1, 0)
	return "", ""
}

func (s *jsonbScan) escape() (rule, got string) {
	const rest = 6
	r := hexRune(s.rest)
	switch {
	case r == 0:
		return "must be without NUL", `\u0000`
	case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
		s.take(rest, 2)
	case r < ' ':
		s.take(rest, 6)
	case !utf16.IsSurrogate(r):
		s.take(rest, utf8.RuneLen(r))
	default:
		if len(s.rest) < 2*rest || s.rest[rest] != '\\' || s.rest[rest+1] != 'u' ||
			utf16.DecodeRune(r, hexRune(s.rest[rest:])) == utf8.RuneError {
			return "must be without half of a surrogate pair", string(s.rest[:rest])
		}
		s.take(2*rest, 4)
	}
	return "", ""
}

// hexRune returns the code unit of an escape such as \u00e9.
func hexRune(escape []byte) rune {
	value, _ := strconv.ParseUint(string(escape[2:6]), 16, 32) // in valid JSON these are four hexadecimal digits
	return rune(value)
}

// Postgres's numeric holds at most so many digits before and after the point.
const (
	maxWholeDigits    = 131072
	maxFractionDigits = 16383
)

// number counts the characters of a number as Postgres's numeric writes it: without an exponent, and with all the
// zeros that it was given.
func (s *jsonbScan) number() (rule, got string) {
	end := 0
	for end < len(s.rest) && strings.IndexByte("+-.0123456789eE", s.rest[end]) >= 0 {
		end++
	}
	text := string(s.rest[:end])
	digits, exponentText, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if exponentText != "" {
		var err error
		if exponent, err = strconv.Atoi(exponentText); err != nil || max(exponent, -exponent) > 1<<20 {
			return "must have no number beyond Postgres's numeric", "one with an exponent of " + shortened(exponentText)
		}
	}
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	significant := strings.TrimLeft(whole+fraction, "0")
	before, after := 1, max(0, len(fraction)-exponent)
	if significant != "" {
		before = max(1, len(significant)-len(fraction)+exponent)
	}
	if before > maxWholeDigits || after > maxFractionDigits {
		return "must have no number beyond Postgres's numeric", fmt.Sprintf("one of %d digits and %d behind the point",
			before, after)
	}
	size := before
	if after > 0 {
		size += 1 + after
	}
	if negative && significant != "" {
		size++
	}
	s.take(end, size)
	return "", ""
}

func shortened(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}
