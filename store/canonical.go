package store

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
)

// canonical returns a JSON text with sorted keys, without spaces, and with numbers written out. The same content then
// has the same text, whether Go's encoder wrote it, or Postgres, or another version of a struct.
func canonical(text []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 would round large numbers
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(writtenOut(value)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func writtenOut(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			value[key] = writtenOut(field)
		}
	case []any:
		for i := range value {
			value[i] = writtenOut(value[i])
		}
	case json.Number:
		return json.Number(decimal(value.String()))
	}
	return value
}

// decimal returns a number without an exponent and without meaningless zeros. A number that has passed checkStorable
// has about 150,000 digits at most.
func decimal(text string) string {
	if !strings.ContainsAny(text, ".eE") && text != "-0" {
		return text
	}
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		return text
	}
	digits, _ := number.FloatPrec() // exact, because the divisor is a power of ten
	return number.FloatString(digits)
}
