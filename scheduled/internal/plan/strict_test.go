package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestStrictOrder(t *testing.T) {
	t.Parallel()
	for orders, want := range map[string]string{
		"":                        "[] []",
		"a b c":                   "[a b c] []",
		"a c, a b c":              "[a b c] []", // a node that works fewer queues
		"b c, a b":                "[a b c] []",
		"a c, b c, b a":           "[b a c] []",
		"a b, c d":                "[a b c d] []",
		"a b, b a":                "[a b] [[b a]]", // the first one in the list holds
		"b a, a b":                "[b a] [[a b]]",
		"a b, b c, c a":           "[a b c] [[c a]]",
		"a b, x a, a x":           "[x a b] [[a x]]",
		"a b, b d a, d e":         "[a b d e] [[b d a]]",
		"a a, b":                  "[b] [[a a]]", // somebody has damaged the row
		"critical low, low other": "[critical low other] []",
	} {
		var given [][]string
		for order := range strings.SplitSeq(orders, ", ") {
			given = append(given, strings.Fields(order))
		}
		before := fmt.Sprint(given)
		joined, ignored := StrictOrder(given)
		if got := fmt.Sprint(joined, " ", ignored); got != want || fmt.Sprint(given) != before {
			t.Errorf("%s: %s, want %s; the orders became %v", orders, got, want, given)
		}
	}
}

// strictNode is a node of the queues critical, default, low and other. Each has the given number of slots.
func strictNode(number int64, slots int, order string, types ...string) taskdb.LiveNode {
	one := node(number, map[string]int{"critical": slots, "default": slots, "low": slots, "other": slots}, types...)
	one.Shares, one.Strict = true, strings.Fields(order)
	return one
}

func TestStrictQueues(t *testing.T) {
	t.Parallel()
	const order = "critical default low"
	one := []taskdb.LiveNode{strictNode(1, 4, order, "A", "B", "Q")}
	backlog := seen{"low A 9", count(20, 900)}
	inQueue := func(queue string, n int) []Job {
		return slices.Repeat([]Job{{Queue: queue, Type: "A", State: Running, Node: 1, Tasks: 1, Age: time.Hour}}, n)
	}
	dedicated := node(2, map[string]int{"low": 2}, "A")
	narrow := strictNode(1, 4, order, "A", "B")
	narrow.TypeSlots = map[string]int{"A": 1}
	for _, test := range []struct {
		name   string
		nodes  []taskdb.LiveNode
		jobs   []Job
		limits []taskdb.Limit
		lanes  []seen
		want   string
		full   bool
	}{
		{name: "an earlier queue comes first, whatever the priorities and the times", nodes: one,
			lanes: []seen{backlog, {"critical A -9", count(2, 0)}, {"default B 0", count(1, 1)}},
			want:  "critical A -9: 2/4; default B 0: 1/4; low A 9: 1/4"},
		{name: "it may take all", nodes: one, lanes: []seen{backlog, {"critical A 0", count(9, 0)}},
			want: "critical A 0: 4/4", full: true},
		{name: "a later queue alone has all slots", nodes: one, lanes: []seen{backlog}, want: "low A 9: 4/4"},
		{name: "within a queue, priorities and times", nodes: one,
			lanes: []seen{{"default A 0", count(3, 9)}, {"default B 5", count(2, 1)}, backlog},
			want:  "default B 5: 2/4; default A 0: 2/4", full: true},
		{name: "a queue that is not in the order comes last", nodes: one,
			lanes: []seen{{"other A 99", count(9, 999)}, {"low A 0", count(3, 0)}},
			want:  "low A 0: 3/4; other A 99: 1/4"},
		{name: "jobs of all queues take the slots", nodes: one,
			jobs: append(inQueue("low", 2), waits("default", "A", 1)), lanes: []seen{backlog, {"critical A 0", count(9, 0)}},
			want: "critical A 0: 1/2", full: true},
		{name: "a task that needs a whole slot keeps it from quick ones of a later queue",
			nodes: []taskdb.LiveNode{strictNode(1, 1, order, "A", "Q")}, jobs: []Job{waits("low", "Q", 100)},
			lanes: []seen{{"critical A 0", count(1, 0)}, {"low Q 0", count(9, 9)}}, full: true},
		{name: "near tasks come after due ones of a later queue", nodes: one,
			lanes: []seen{{"critical A 0", []time.Duration{500 * time.Millisecond}}, {"low A 0", count(3, 0)}},
			want:  "low A 0: 3/4; critical A 0: 1/1"},
		{name: "slots that the earlier queue cannot use serve the later ones",
			nodes: []taskdb.LiveNode{strictNode(1, 4, order, "B"), strictNode(2, 2, order, "A")},
			lanes: []seen{{"critical A 0", count(9, 0)}, {"low B 0", count(9, 9)}},
			want:  "critical A 0: 2/2; low B 0: 4/4"},
		{name: "also if its type has no place", nodes: []taskdb.LiveNode{narrow},
			lanes: []seen{{"critical A 0", count(9, 0)}, {"low B 0", count(9, 9)}},
			want:  "critical A 0: 1/1; low B 0: 3/4"},
		{name: "and if a limit is reached", nodes: one, limits: []taskdb.Limit{runsAtMost("queue critical", 1)},
			lanes: []seen{{"critical A 0", count(9, 0)}, {"low B 0", count(9, 9)}},
			want:  "critical A 0: 1/1; low B 0: 3/4"},
		{name: "a limit of all goes to the earlier queue", nodes: one, limits: []taskdb.Limit{runsAtMost("all", 3)},
			lanes: []seen{backlog, {"critical A 0", count(2, 0)}},
			want:  "critical A 0: 2/2; low A 9: 1/1"},
		{name: "a node of its own works the later queue", nodes: append(slices.Clone(one), dedicated),
			lanes: []seen{backlog, {"critical A 0", count(9, 0)}},
			want:  "critical A 0: 4/4; low A 9: 2/6"},
		{name: "tasks of nodes without the order go by their priorities",
			nodes:  []taskdb.LiveNode{strictNode(1, 4, order, "A"), node(2, map[string]int{"default": 1, "mail": 1}, "B")},
			limits: []taskdb.Limit{runsAtMost("type B", 1)},
			lanes:  []seen{{"default B 0", count(3, 0)}, {"mail B 9", count(3, 0)}},
			want:   "mail B 9: 1/1", full: true},
		{name: "the order of the node that began last holds",
			nodes: []taskdb.LiveNode{strictNode(1, 1, "low critical", "A"), strictNode(2, 1, "critical low", "A")},
			lanes: []seen{{"low A 9", count(9, 9)}, {"critical A 0", count(9, 0)}},
			want:  "critical A 0: 2/2", full: true},
	} {
		p := planOf(Input{Nodes: test.nodes, Jobs: test.jobs, Limits: test.limits, Rates: known, LookAhead: time.Second},
			test.lanes, 5000)
		if got := grantsOf(p.Grants(5000)); got != test.want || p.Full != test.full {
			t.Errorf("%s:\n got %s, full %t\nwant %s, full %t", test.name, got, p.Full, test.want, test.full)
		}
	}
}
