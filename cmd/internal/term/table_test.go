package term

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

func TestTable(t *testing.T) {
	t.Parallel()
	message := "a message of\nsome length"
	var none *string
	list := NewTable("ID", "TASKS", "STATUS", "MESSAGE")
	list.Add("übermäßig", 7, store.StatusFailed, &message)
	list.Add("b", 1234, store.StatusQueued, none)
	list.Add("\x1b[2Jevil\u202e", nil, store.StatusPaused, "")
	fields := NewFields()
	fields.Add("id", "a")
	fields.Add("attempt", 3)
	fields.Add("status", store.StatusExecuting)
	empty := NewTable("ID", "TASKS")
	values := NewTable("NOTHING", "MIXED", "NUMBERS", "NOTHING")
	values.Add(nil, 1, 1, nil)
	values.Add("", "one", nil, nil)
	values.Add(none, nil, 100, nil)
	for name, c := range map[string]struct {
		table  *Table
		colors bool
		width  int
		want   string
	}{
		"plain": {list, false, 0, `
ID                 TASKS  STATUS  MESSAGE
übermäßig              7  FAILED  a message of some length
b                   1234  QUEUED  -
\x1b[2Jevil\u202e      -  PAUSED  -
`},
		"cut to the terminal": {list, false, 54, `
ID                 TASKS  STATUS  MESSAGE
übermäßig              7  FAILED  a message of some l…
b                   1234  QUEUED  -
\x1b[2Jevil\u202e      -  PAUSED  -
`},
		"on a narrow one": {list, false, 10, `
ID                 TASKS  STATUS  MESSAGE
übermäßig              7  FAILED  a message of so…
b                   1234  QUEUED  -
\x1b[2Jevil\u202e      -  PAUSED  -
`},
		"painted": {list, true, 0, `
«1mID»                 «1mTASKS»  «1mSTATUS»  «1mMESSAGE»
übermäßig              7  «31mFAILED»  a message of some length
b                   1234  QUEUED  -
\x1b[2Jevil\u202e      -  «33mPAUSED»  -
`},
		"fields": {fields, true, 0, `
id       a
attempt  3
status   «34mEXECUTING»
`},
		"columns": {values, false, 0, `
NOTHING  MIXED  NUMBERS  NOTHING
-        1            1  -
-        one          -  -
-        -          100  -
`},
		"no fields": {NewFields(), false, 0, "\n"},
		"no rows": {empty, false, 0, `
ID  TASKS
`},
	} {
		var out strings.Builder
		if err := c.table.Print(&out, c.colors, c.width); err != nil {
			t.Fatal(err)
		}
		got := strings.NewReplacer("\x1b[0m", "»", "\x1b[", "«").Replace(out.String())
		if got != c.want[1:] {
			t.Errorf("%s: got\n%s\nwant%s", name, got, c.want)
		}
	}
}

// A new status or outcome without a color would go unnoticed.
func TestEachStatusAndOutcomeHasAColor(t *testing.T) {
	t.Parallel()
	var words []string
	for _, status := range store.Statuses() {
		words = append(words, string(status))
	}
	for _, outcome := range []store.Outcome{store.Created, store.Rescheduled, store.Rearmed, store.Cancelled,
		store.Paused, store.Queued,
		store.Deleted, store.Archived, store.Unchanged, store.Finished, store.Running, store.Absent} {
		words = append(words, string(outcome))
	}
	for _, word := range words {
		if _, ok := StatusColors[word]; !ok {
			t.Errorf("%s has no color", word)
		}
	}
}
