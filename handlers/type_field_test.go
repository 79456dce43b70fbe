package handlers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

type withTypeField struct {
	Kind string `json:"type,omitempty"`
}

func (withTypeField) TaskType() string { return "WITH_TYPE_FIELD" }

type withTypeInside struct {
	Card struct {
		Type string `json:"type"`
	} `json:"card"`
	Hidden string `json:"-"`
}

func (withTypeInside) TaskType() string { return "WITH_TYPE_INSIDE" }

// The field "type" of a payload holds the task's type: a struct with such a field is refused when the program starts,
// not when it first schedules.
func TestRegistryRefusesAPayloadWithAFieldType(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]handlers.Part{
		"struct":  part[withTypeField](),
		"pointer": part[*withTypeField](),
	} {
		_, err := handlers.NewRegistry(one)
		if want := `field Kind of the payload handlers_test.withTypeField has the JSON name "type"`; !errors.Is(err,
			store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := handlers.NewRegistry(part[withTypeInside]()); err != nil {
		t.Errorf("a field further inside: %v", err)
	}
}
