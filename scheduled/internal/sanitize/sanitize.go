// Package sanitize makes texts of handlers fit for Postgres.
package sanitize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxText is how many bytes of an error or a note are kept. A stack fits, and a dumped response body does not.
const maxText = 8 << 10

// Text makes text storable. Postgres takes neither NUL nor invalid UTF-8, and one bad text would fail the whole
// statement that settles its task together with others. The result has at most maxText bytes. It stays the same when
// it is scrubbed again.
func Text(text string) string {
	whole := len(text) <= maxText
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD") // the cut may fall within a character
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")                    // this makes three bytes of one
	if whole && len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), maxText-len("…"))], "") + "…" // the cut may fall within a character
}

// ErrorText is err.Error(). It returns a text even if that method panics, as it may for a nil pointer in an error
// interface. The method is part of the handler's code, and must not end the process.
func ErrorText(err error) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprintf("an error of type %T whose method Error panicked: %v", err, value)
		}
	}()
	return err.Error()
}

// JSON is Text for an encoded value, of any length. JSON writes NUL as an escape that jsonb refuses. jsonb refuses lone
// surrogates too, and decoding and encoding the value replaces them. JSON returns nil if the value is not valid JSON.
func JSON(encoded json.RawMessage) json.RawMessage {
	if utf8.Valid(encoded) && !bytes.Contains(encoded, []byte(`\u`)) {
		return encoded
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(bytes.ToValidUTF8(encoded, []byte("\uFFFD"))))
	decoder.UseNumber() // a float64 rounds large numbers
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	clean, err := json.Marshal(scrubValue(value))
	if err != nil {
		return nil
	}
	return clean
}

func scrubValue(value any) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "\x00", "\uFFFD")
	case []any:
		for i := range value {
			value[i] = scrubValue(value[i])
		}
		return value
	case map[string]any:
		for key, field := range value {
			delete(value, key)
			value[strings.ReplaceAll(key, "\x00", "\uFFFD")] = scrubValue(field)
		}
		return value
	}
	return value
}
