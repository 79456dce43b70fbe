package handlers

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// checkTypeField refuses a payload struct with a field of the JSON name "type". Tasktable writes the type's name
// there, so Schedule would fail for a value with another text in that field.
func checkTypeField(name string, payload reflect.Type) error {
	if payload == nil {
		return nil
	}
	if payload.Kind() == reflect.Pointer {
		payload = payload.Elem()
	}
	if payload.Kind() != reflect.Struct || reflect.PointerTo(payload).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for _, field := range reflect.VisibleFields(payload) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && tag == "type" && len(field.Index) == 1 {
			return fmt.Errorf(
				`%w: field %s of the payload %s has the JSON name "type", which holds the task's type (%q): `+
					`give it another name`,
				store.ErrInvalid,
				field.Name,
				payload,
				name,
			)
		}
	}
	return nil
}
