package handlers

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// UnknownField returns the name of a field of the payload that its type does not have, and "" if there is none or if
// nothing is known about the type. A handler ignores such a field, because it may be of another version of the
// producer. But the caller who has just written the payload may have misspelt the name.
func (r *Registry) UnknownField(taskType string, payload []byte) string {
	variant := r.variants[taskType]
	if variant == nil || variant.payload == nil {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return ""
	}
	delete(fields, "type")
	rest, err := json.Marshal(fields)
	if err != nil {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(rest))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(reflect.New(variant.payload).Interface())
	if err == nil {
		return ""
	}
	name, _ := strings.CutPrefix(err.Error(), "json: unknown field ")
	if name == err.Error() {
		return ""
	}
	return strings.Trim(name, `"`)
}
