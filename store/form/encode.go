package form

import (
	"bytes"
	"encoding/json"
)

// Encode writes a value as JSON, with an indent for each level. json.Marshal would write each of <, > and & as six
// bytes, such as \u0026, although no JSON of Tasktable stands in a script. A person could not read the URLs in a
// payload, and an answer with many of these signs would be six times as large as its bound.
func Encode(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return nil, err //nolint:wrapcheck // it stands for json.Marshal
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
