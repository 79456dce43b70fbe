package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A quick task that fits into the rest of a pool's room does not go before a more urgent one that needs more.
func TestInOrder(t *testing.T) {
	t.Parallel()
	near, slow, quick := time.Second, 250, 1
	lanes := func(dueIn time.Duration, pool int) []taskdb.LaneQuota {
		return []taskdb.LaneQuota{
			{Lane: taskdb.Lane{Type: "SLOW", Priority: 9, DueIn: dueIn}, Cost: slow},
			{Lane: taskdb.Lane{Type: "QUICK", Priority: 9}, Cost: quick, Room: 100, Near: 50},
			{Lane: taskdb.Lane{Type: "QUICK"}, Pool: pool, Base: pool, Cost: quick, Room: 100, Near: 50},
		}
	}
	placed := func(free int) []taskdb.LaneQuota { // the first needs places, of which there are none
		return []taskdb.LaneQuota{
			{Lane: taskdb.Lane{Type: "LIMITED", Priority: 9}, Pool: 7, Cost: slow, Free: free},
			{Lane: taskdb.Lane{Type: "QUICK"}, Cost: quick, Room: 100, Near: 50},
			{Lane: taskdb.Lane{Type: "LIMITED"}, Pool: 7, Cost: quick, Room: 100, Near: 50, Free: 100},
		}
	}
	for _, test := range []struct {
		name  string
		lanes []taskdb.LaneQuota
		want  string // room and near of each
	}{
		{"the urgent one is due", lanes(0, 0), "[0 0] [100 50] [0 0]"},
		{"it is not due yet", lanes(near, 0), "[0 0] [100 50] [100 50]"},
		{"it is of another pool", lanes(0, 1), "[0 0] [100 50] [100 50]"},
		{"it waits for a place, and slots are free", placed(slow), "[0 0] [100 50] [0 0]"},
		{"it waits for a place, and slots are not free either", placed(slow - 1), "[0 0] [0 0] [0 0]"},
		{"it needs no place, and those that do come after it", []taskdb.LaneQuota{
			{Lane: taskdb.Lane{Type: "SLOW", Priority: 9}, Cost: slow, Room: 100, Free: 100},
			{Lane: taskdb.Lane{Type: "LIMITED"}, Pool: 7, Cost: quick, Room: 100, Near: 50, Free: 100},
		}, "[100 0] [0 0]"},
		{"no lane", nil, ""},
	} {
		got := ""
		for i, b := range inOrder(test.lanes) {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprint([]int{b.Room, b.Near})
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// Lanes that need the same slots and different places are claimed one after the other. Each leaves room to the next.
func TestRounds(t *testing.T) {
	t.Parallel()
	lane := func(kind string, base, pool, room int) taskdb.LaneQuota {
		return taskdb.LaneQuota{
			Lane: taskdb.Lane{Type: kind, Queue: "default"}, Base: base, Pool: pool, Cost: 10, Room: room, Near: 20,
			Free: 100,
		}
	}
	lanes := []taskdb.LaneQuota{
		lane("A", 0, 1, 30), lane("OTHER", 5, 5, 50), lane("A2", 0, 1, 30), lane("B", 0, 0, 100), lane("C", 0, 2, 10),
		lane("OTHER2", 5, 5, 50),
	}
	if n := nextRound(lanes); n != 3 {
		t.Errorf("%d lanes in the first round, want 3", n)
	}
	if n := nextRound([]taskdb.LaneQuota{lanes[1], lanes[3], lanes[5]}); n != 3 {
		t.Errorf("%d lanes in the first round of plain lanes, want 3", n)
	}
	fence, took := int64(1), []taskdb.ClaimedTask{}
	for range 9 {
		took = append(took, taskdb.ClaimedTask{Type: "B", Queue: "default", Fence: &fence})
	}
	left := ""
	for _, l := range restOf(lanes[3:], 1, took) {
		left += fmt.Sprint(l.Type, " ", l.Room, " ", l.Near, " ", l.Free, "; ")
	}
	if want := "C 10 10 10; OTHER2 50 20 100; "; left != want {
		t.Errorf("left %s, want %s", left, want)
	}
}

// What a round leaves of the room is too little for another task of its lanes. Quicker and less urgent tasks of a later
// round do not get it.
func TestRoundsKeepTheOrder(t *testing.T) {
	t.Parallel()
	lane := func(kind string, base, pool, priority, cost int) taskdb.LaneQuota {
		return taskdb.LaneQuota{
			Lane: taskdb.Lane{Type: kind, Queue: "default", Priority: priority}, Base: base, Pool: pool, Cost: cost,
			Room: 150, Free: 150,
		}
	}
	lanes := []taskdb.LaneQuota{
		lane("SLOW", 0, 0, 9, 100), lane("PLACED", 0, 1, 0, 10), lane("QUICK", 0, 0, 0, 10), lane("OTHER", 5, 5, 0, 10),
	}
	fence := int64(1)
	for name, f := range map[string]*int64{"it runs": &fence, "it has expired": nil} {
		took := []taskdb.ClaimedTask{{Type: "SLOW", Queue: "default", Priority: 9, Fence: f}}
		left := ""
		for _, l := range restOf(lanes, 1, took) {
			left += fmt.Sprint(l.Type, " ", l.Room, "; ")
		}
		if want := "OTHER 150; "; left != want {
			t.Errorf("%s: left %s, want %s", name, left, want)
		}
	}
}

// Nor does it where the more urgent ones are of one lane, and some of them fit.
func TestClaimOrderOverCosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		slow, quick := store.JSON(`{"type":"SLOW"}`), store.JSON(`{"type":"QUICK"}`)
		b.Schedule(
			store.Task{
				ID: fmt.Sprint("slow ", i), Payload: slow, At: enginetest.Noon.Add(time.Duration(i-9) * time.Second),
				Priority: 9,
			},
			store.Task{ID: fmt.Sprint("quick ", i), Payload: quick, At: enginetest.Noon.Add(-time.Minute)},
		)
	}
	claim := func(room int) (ids []string) {
		for _, c := range b.ClaimFrom(enginetest.Noon, 0, 10,
			taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "default", Type: "SLOW", Priority: 9}, Cost: 250, Room: room},
			taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "default", Type: "QUICK"}, Cost: 1, Room: room}) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	for _, step := range []struct {
		room int
		want []string
	}{
		{300, []string{"slow 0"}},
		{499, []string{"slow 1"}},
		{252, []string{"slow 2", "quick 0", "quick 1"}},
	} {
		if got := claim(step.room); !slices.Equal(got, step.want) {
			t.Errorf("room %d: claimed %q, want %q", step.room, got, step.want)
		}
	}
}
