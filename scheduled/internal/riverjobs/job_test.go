package riverjobs

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

var someClaims = []taskdb.Claim{
	{ID: "a", Fence: 1, Revision: 2, Attempt: 3, Due: noon},
	{
		ID: "12:34:", Fence: math.MaxInt64, Revision: math.MaxInt64, Attempt: math.MaxInt32,
		Due: noon.Add(time.Microsecond),
	},
	{ID: "ünïcode \U0001F600 \"quoted\" \\ ", Fence: 5, Revision: 4, Attempt: 1, Due: time.Unix(0, 0).UTC()},
	{
		ID: strings.Repeat("9:", 256), Fence: 7, Revision: 6, Attempt: 1,
		Due: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	},
	{ID: "", Fence: 0, Revision: 0, Attempt: 0, Due: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
}

func TestPack(t *testing.T) {
	t.Parallel()
	for n := range len(someClaims) + 1 {
		packed := EncodeClaims(someClaims[:n])
		got, err := DecodeClaims(packed)
		if err != nil || len(got) != n || n > 0 && !reflect.DeepEqual(got, someClaims[:n]) {
			t.Errorf("%d claims come back as %+v, %v", n, got, err)
		}
		for cut := range packed { // no part of a batch is taken for a whole one of as many tasks
			if got, err := DecodeClaims(packed[:cut]); err == nil && len(got) >= n {
				t.Errorf("%q cut at %d is read as %+v", packed, cut, got)
			}
		}
	}
	if got := EncodeClaims(someClaims[:1]); got != "1:2:3:1893499200000000:1:a" {
		t.Errorf("packed as %q", got)
	}
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	for packed, want := range map[string]string{
		"x":                                  "no number 1 of task 1",
		"1:2:3:4:":                           "no number 5 of task 1",
		"1:2:3:4:5":                          "no number 5 of task 1",
		"1:2:x:4:1:a":                        "no number 3 of task 1",
		"1:2:3:4:1:a1":                       "no number 1 of task 2",
		"1:2:3:4:2:a":                        "id of task 1 should have 2 bytes, 1 are left",
		"1:2:3:4:-1:a":                       "id of task 1 should have -1 bytes, 1 are left",
		"1:2:3:4:9223372036854775807:a":      "id of task 1 should have 9223372036854775807 bytes, 1 are left",
		"1:2:3:4:99999999999999999999:a":     "no number 5 of task 1",
		"99999999999999999999:2:3:4:1:a":     "no number 1 of task 1",
		"1:2:3:4:1:a2:3:4:5:1":               "no number 5 of task 2",
		" 1:2:3:4:1:a":                       "no number 1 of task 1",
		`{"tasks": [1, 2, 3]}`:               "no number 1 of task 1",
		"1:2:3:4:1:a" + "9:9:9:9:2:b":        "id of task 2 should have 2 bytes, 1 are left",
		"1:2:3:9223372036854775807:1:a:::::": "no number 1 of task 2",
	} {
		if got, err := DecodeClaims(packed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v, %v; want %q", packed, got, err, want)
		}
	}
}

// Whatever can be unpacked is what packing gave, but for other ways to write the same number.
func FuzzUnpack(f *testing.F) {
	for n := range len(someClaims) {
		f.Add(EncodeClaims(someClaims[n:]))
	}
	f.Add("1:2:3:4:1:a1:2:3:4:0:")
	f.Add("+1:-2:03:-9223372036854775808:0:")
	f.Add("1:2:3:9223372036854775807:1:a")
	f.Add("1:2:3:4:9223372036854775807:a")
	f.Fuzz(func(t *testing.T, packed string) {
		claims, err := DecodeClaims(packed)
		if err != nil {
			if claims != nil {
				t.Errorf("%q: an error, and %d claims", packed, len(claims))
			}
			return
		}
		again, err := DecodeClaims(EncodeClaims(claims))
		if err != nil || !reflect.DeepEqual(claims, again) {
			t.Errorf("%q: %+v packs to %+v, %v", packed, claims, again, err)
		}
	})
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	params := JobOf(taskdb.LaneKey{Queue: "bulk", Type: "JOB", Priority: 51}, 0, false, someClaims[:2])
	if params.Args.Kind() != "JOB" || params.InsertOpts.Queue != "bulk" || params.InsertOpts.MaxAttempts != 1 ||
		string(params.InsertOpts.Metadata) != `{"tasks":2,"due":1893499200000001}` {
		t.Errorf("job %+v, options %+v", params.Args, params.InsertOpts)
	}
	for priority, want := range map[int]int{100: 1, 51: 1, 50: 2, 1: 2, 0: 3, -1: 4, -100: 4} {
		if got := riverPriority(priority); got != want {
			t.Errorf("priority %d is River's %d, want %d", priority, got, want)
		}
	}
}
