package statement

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// param is a declared parameter.
type param struct {
	name     string
	typeName string
	kind     kind
}

// kind is a type that a parameter can have.
type kind struct {
	oid  uint32                             // its number in Postgres
	rule string                             // for errors: "must be …"
	text func(json.RawMessage) (any, error) // the value as Postgres takes it: a text, or a list for an array
}

var errKind = errors.New("another kind of JSON")

// kinds are the types, by their names in the configuration.
var kinds = map[string]kind{
	"text":        {pgtype.TextOID, "a string without NUL", checkedText(func(string) bool { return true })},
	"bigint":      {pgtype.Int8OID, "a whole number of 64 bits", wholeNumber},
	"numeric":     {pgtype.NumericOID, "a number", number},
	"boolean":     {pgtype.BoolOID, "true or false", boolean},
	"timestamptz": {pgtype.TimestamptzOID, "a time such as 2027-01-31T09:30:00Z", checkedText(isTime)},
	"date":        {pgtype.DateOID, "a date such as 2027-01-31", checkedText(isDate)},
	"interval":    {pgtype.IntervalOID, "an interval such as 30 days or 1 hour 30 minutes", checkedText(isInterval)},
	"uuid":        {pgtype.UUIDOID, "a UUID", checkedText(isUUID)},
	"jsonb":       {pgtype.JSONBOID, "JSON without NUL", document},
	"text[]":      {pgtype.TextArrayOID, "a list of strings without NUL", list[string]},
	"bigint[]":    {pgtype.Int8ArrayOID, "a list of whole numbers of 64 bits", list[int64]},
}

// encode returns the value in Postgres's text format. The error begins with the rule, and does not contain the value.
func (p param) encode(value json.RawMessage) ([]byte, error) {
	if string(value) == "null" {
		return nil, fmt.Errorf("must be %s, and not null", p.kind.rule)
	}
	taken, err := p.kind.text(value)
	if err != nil {
		return nil, fmt.Errorf("must be %s", p.kind.rule)
	}
	if text, plain := taken.(string); plain {
		return []byte(text), nil
	}
	encoded, err := pgtype.NewMap().Encode(p.kind.oid, pgtype.TextFormatCode, taken, nil)
	if err != nil {
		return nil, fmt.Errorf("must be %s", p.kind.rule)
	}
	return encoded, nil
}

func checkedText(allowed func(string) bool) func(json.RawMessage) (any, error) {
	return func(value json.RawMessage) (any, error) {
		var text string
		if err := json.Unmarshal(value, &text); err != nil || strings.Contains(text, "\x00") || !allowed(text) {
			return nil, errKind
		}
		return text, nil
	}
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func isUUID(text string) bool { return uuid.Validate(text) == nil }

var intervalSyntax = regexp.MustCompile(`^\d{1,9} (second|minute|hour|day|week|month|year)s?` +
	`( \d{1,9} (second|minute|hour|day|week|month|year)s?)*$`)

func isInterval(text string) bool { return intervalSyntax.MatchString(text) }

func wholeNumber(value json.RawMessage) (any, error) {
	if _, err := strconv.ParseInt(string(value), 10, 64); err != nil {
		return nil, errKind
	}
	return string(value), nil
}

func number(value json.RawMessage) (any, error) {
	var text json.Number
	if err := json.Unmarshal(value, &text); err != nil || value[0] == '"' {
		return nil, errKind
	}
	return string(value), nil
}

func boolean(value json.RawMessage) (any, error) {
	var b bool
	err := json.Unmarshal(value, &b)
	return strconv.FormatBool(b), err
}

func document(value json.RawMessage) (any, error) {
	if strings.Contains(string(value), `\u0000`) { // also refuses a backslash before u0000, which is rare
		return nil, errKind
	}
	return string(value), nil
}

func list[T any](value json.RawMessage) (any, error) {
	var items []T
	err := json.Unmarshal(value, &items)
	if texts, ok := any(items).([]string); ok && strings.Contains(strings.Join(texts, ""), "\x00") {
		err = errKind
	}
	return items, err
}
