package scheduled

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxText is how much of an error or a note is kept: a stack fits, a dumped response body does not.
const maxText = 8 << 10

// scrub makes text storable: Postgres takes neither NUL nor invalid UTF-8, and one such text would fail the whole statement
// that settles it together with others. What it returns is at most maxText bytes, and stays the same when it is scrubbed again.
func scrub(text string) string {
	whole := len(text) <= maxText
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD") // what is cut may end within a character
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")                    // three bytes for one
	if whole && len(text) <= maxText {
		return text
	}
	end := min(len(text), maxText-len("…"))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// errorText is err.Error(), also of an error whose method panics, as that of a nil pointer in an error interface may: it is the
// handler's code, and must not end the process.
func errorText(err error) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprintf("an error of type %T whose text cannot be had: %v", err, value)
		}
	}()
	return err.Error()
}

// scrubJSON is scrub for an encoded value. JSON writes NUL as an escape that jsonb refuses; so are lone surrogates, which
// decoding and encoding again replaces.
func scrubJSON(encoded json.RawMessage) json.RawMessage {
	if encoded == nil {
		return nil
	}
	if utf8.Valid(encoded) && !bytes.Contains(encoded, []byte(`\u`)) {
		return encoded
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(bytes.ToValidUTF8(encoded, []byte("\uFFFD"))))
	decoder.UseNumber() // a float64 would round large numbers
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
