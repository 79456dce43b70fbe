package form_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		texts []string
		want  store.Weights // nil: it is refused
		text  string
	}{
		{nil, store.Weights{}, ""},
		{[]string{"large=3", " ", " a b = 1 "}, store.Weights{"large": 3, "a b": 1}, "a b=1, large=3"},
		{[]string{"a=b=1", "c=-1"}, store.Weights{"a=b": 1, "c": -1}, "a=b=1, c=-1"},
		{[]string{"a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1"}, store.Weights{"a": 1, "b": 1, "c": 1, "d": 1,
			"e": 1, "f": 1, "g": 1}, "a=1, b=1, c=1, d=1, e=1 and 2 more"},
		{[]string{"large"}, nil, ""},
		{[]string{"3"}, nil, ""},
		{[]string{"=3"}, nil, ""},
		{[]string{"large="}, nil, ""},
		{[]string{"large=many"}, nil, ""},
		{[]string{"large=3", "large=3"}, nil, ""},
	} {
		got, err := form.Weights(test.texts)
		if (err != nil) != (test.want == nil) || !maps.Equal(got, test.want) || form.WeightsText(got) != test.text {
			t.Errorf("%q: %v, %q, %v", test.texts, got, form.WeightsText(got), err)
		}
	}
	if err := fmt.Sprint(form.Weights([]string{"large"})); err != "map[] must be a name, = and a number, each name once, such as large=3" {
		t.Errorf("the rule is %s", err)
	}
}
