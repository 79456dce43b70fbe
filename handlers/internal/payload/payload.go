// Package payload has the rules that the payloads of the ready-made handlers share. Its errors name the field and the
// rule. They do not contain the field's value, because errors go to logs.
package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Timeout is a duration as a text. In JSON it may also be a number of seconds.
type Timeout string

// UnmarshalJSON takes a text or a number.
func (t *Timeout) UnmarshalJSON(text []byte) error {
	if strings.HasPrefix(string(text), `"`) || string(text) == "null" {
		return json.Unmarshal(text, (*string)(t))
	}
	*t = Timeout(string(text) + "s")
	return nil
}

// DecodeError replaces the error of a field with a wrong JSON type, because encoding/json writes it for programmers.
func DecodeError(err error) error {
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return fmt.Errorf("payload field %s must not be a JSON %s", wrong.Field[strings.LastIndex(wrong.Field, ".")+1:],
			wrong.Value)
	}
	return err
}

// CheckJSON refuses a payload that breaks the rules of its type, or that is no object. It also refuses a field that is
// neither "type" nor one of names. An unknown field is usually a typing mistake.
func CheckJSON[P interface{ Check() error }](text []byte, names []string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return errors.New("payload must be a JSON object")
	}
	for name := range fields {
		if name != "type" && !slices.Contains(names, name) {
			return fmt.Errorf("payload field %q is not known; the fields are %s", name, strings.Join(names, ", "))
		}
	}
	var payload P
	if err := json.Unmarshal(text, &payload); err != nil {
		return err
	}
	return payload.Check()
}

var nameSyntax = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// CheckName returns an error if the text cannot be a name in a node's configuration. The error begins with the rule.
func CheckName(name string) error {
	if !nameSyntax.MatchString(name) {
		return errors.New("must be a name of 1 to 64 of a-z, 0-9 and inner . _ -")
	}
	return nil
}
