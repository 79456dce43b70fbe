package scheduled

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A claim whose lease has ended was lost, unless it is still in a job that nobody took up: then its whole job goes back.
func TestSortLapsed(t *testing.T) {
	t.Parallel()
	holds := map[string]hold{}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		holds[id] = hold{ID: id, Fence: int64(100 + i), Revision: int64(i), Attempt: i, Due: noon.Add(time.Duration(i) * time.Second)}
	}
	job := func(id int64, ids ...string) jobRow {
		var packed []hold
		for _, each := range ids {
			packed = append(packed, holds[each])
		}
		return jobRow{ID: id, Tasks: pack(packed)}
	}
	leaseEnd := noon.Add(time.Hour)
	for _, test := range []struct {
		name      string
		lapsed    string
		available []jobRow
		want      string
		ended     []int64
	}{
		{name: "nothing"},
		{name: "nothing lapsed", available: []jobRow{job(1, "a", "b")}},
		{name: "lost", lapsed: "ab", want: "a LOST at unknown, b LOST at unknown"},
		{name: "never started", lapsed: "a", available: []jobRow{job(1, "a")}, want: "a RELEASED at 0s", ended: []int64{1}},
		{name: "the whole job goes", lapsed: "b", available: []jobRow{job(1, "c"), job(2, "a", "b", "d")}, want: "a RELEASED at 0s, b RELEASED at 1s, d RELEASED at 3s", ended: []int64{2}},
		{name: "once, though two lapsed", lapsed: "ab", available: []jobRow{job(2, "a", "b")}, want: "a RELEASED at 0s, b RELEASED at 1s", ended: []int64{2}},
		{name: "both kinds", lapsed: "eab", available: []jobRow{job(1, "a"), job(2, "b")}, want: "a RELEASED at 0s, b RELEASED at 1s, e LOST at unknown", ended: []int64{1, 2}},
		{name: "a job that is not ours", lapsed: "a", available: []jobRow{{ID: 9, Tasks: "what?"}, {ID: 8}}, want: "a LOST at unknown"},
	} {
		var lapsed []hold
		for _, id := range strings.Split(test.lapsed, "") {
			h := holds[id]
			h.Due = leaseEnd // as lapsedHoldsSQL returns it
			lapsed = append(lapsed, h)
		}
		settlements, ended := sortLapsed(lapsed, test.available)
		var got []string
		for _, s := range settlements {
			due := "unknown"
			if !s.Due.IsZero() {
				due = s.Due.Sub(noon).String()
			}
			got = append(got, fmt.Sprintf("%s %s at %s", s.ID, s.Outcome, due))
			if s.Fence != holds[s.ID].Fence || s.Revision != holds[s.ID].Revision || s.Attempt != holds[s.ID].Attempt {
				t.Errorf("%s: %+v", test.name, s.hold)
			}
			if s.Refund != (s.Outcome == outcomeReleased) {
				t.Errorf("%s: %s of %s, refund %t", test.name, s.Outcome, s.ID, s.Refund)
			}
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != test.want || !slices.Equal(ended, test.ended) {
			t.Errorf("%s: %q, jobs %v; want %q, %v", test.name, got, ended, test.want, test.ended)
		}
	}
}
