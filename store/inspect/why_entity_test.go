package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

func TestWhyEntity(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	of := func(id, entity string, minute int) {
		b.Schedule(store.Task{ID: id, Payload: payload(1), At: far(minute), Entity: entity})
	}
	of("late", "event:42", 9)
	of("early", "event:42", 1)
	of("middle", "event:42", 5)
	of("of another", "event:4", 5)
	of("gone", "event:42", 5)
	b.must(b.Tasks.Cancel(b.Ctx, b.Pool, "middle"))
	b.must(b.Tasks.Delete(b.Ctx, b.Pool, "gone"))
	for _, test := range []struct {
		entity string
		limit  int
		want   string
	}{
		{"event:42", 3, "early not_due, middle cancelled, late not_due"},
		{"event:42", 2, "middle cancelled, late not_due"},
		{"event:4", 100, "of another not_due"},
		{"event", 100, ""},
	} {
		explained, err := b.Inspector.WhyEntity(b.Ctx, b.Pool, test.entity, test.limit)
		b.Check(err)
		told := make([]string, len(explained))
		for i, e := range explained {
			told[i] = e.ID + " " + e.Reason.Code
			same(b, "the explanation of "+e.ID, e.Sentence, b.why(e.ID).Sentence)
		}
		same(b, fmt.Sprint("of ", test.entity, ", ", test.limit, " at most"), strings.Join(told, ", "), test.want)
	}
	for want, ask := range map[string]struct {
		entity string
		limit  int
	}{
		"entity must be given": {"", 1}, "entity must be": {"a\nb", 1},
		"limit must be between 1 and 100, got 0": {"x", 0}, "limit must be between 1 and 100, got 101": {"x", 101},
	} {
		if _, err := b.Inspector.WhyEntity(b.Ctx, b.Pool, ask.entity, ask.limit); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
