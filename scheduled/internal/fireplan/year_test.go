package fireplan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// golden is a table of store/recurrence/testdata: the fires of an expression in a zone, after a time and up to
// another, found there by a walk through time that knows nothing of any library.
type golden struct {
	cron, zone string
	from, to   time.Time
	fires      int
	hash       string
}

var goldenHead = regexp.MustCompile(`(?m)^# (.+) in (\S+), after (\S+) until (\S+): (\d+), ([0-9a-f]{16})$`)

// goldenAnchor is where the tables' @every counts from, 2000 weeks earlier: each of their periods divides a week.
var goldenAnchor = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).AddDate(0, 0, -14000)

func goldens(t *testing.T) (tables []golden) {
	t.Helper()
	files, err := filepath.Glob("../../../store/recurrence/testdata/*.txt")
	if err != nil || len(files) < 11 {
		t.Fatalf("tables %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range goldenHead.FindAllStringSubmatch(string(text), -1) {
			g := golden{cron: head[1], zone: head[2], hash: head[6]}
			if g.from, err = time.Parse(time.RFC3339, head[3]); err != nil {
				t.Fatal(err)
			}
			if g.to, err = time.Parse(time.RFC3339, head[4]); err != nil {
				t.Fatal(err)
			}
			if g.fires, err = strconv.Atoi(head[5]); err != nil {
				t.Fatal(err)
			}
			tables = append(tables, g)
		}
	}
	return tables
}

// is compares fires, in order, with the table.
func (g golden) is(t *testing.T, fires []time.Time) {
	t.Helper()
	hash := sha256.New()
	for _, fire := range fires {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(fire.Unix())))
	}
	if got := hex.EncodeToString(hash.Sum(nil)[:8]); len(fires) != g.fires || got != g.hash {
		t.Errorf("%s in %s until %s: %d fires, %s; want %d, %s", g.cron, g.zone, g.to, len(fires), got, g.fires, g.hash)
	}
}

// simulate plays a leader that looks at a new task when look says, given when its next fire is, up to the
// table's end, and returns what was decided each time. What the leader would write to the row is carried from
// one look to the next.
func (g golden) simulate(t *testing.T, change func(*Task), look func(next time.Time) time.Time) (fires []fire) {
	t.Helper()
	rule, err := recurrence.Parse(g.cron, g.zone)
	if err != nil {
		t.Fatal(err)
	}
	rule = rule.Anchored(goldenAnchor)
	r := hourly()
	r.Planned, r.LastFire, r.OccurrenceCount, r.CatchUpLimit = false, nil, 0, 10000
	r.ScheduledAt, r.NextFire, r.Now = goldenAnchor, g.from, g.from
	if change != nil {
		change(&r)
	}
	for {
		f := decide(r, rule, nil, "", 500)
		fires = append(fires, f.Fires...)
		r.LastFire, r.OccurrenceCount, r.NextFire, r.Planned = f.Last, f.Count, f.Next, true
		if f.Next.IsZero() || f.Next.After(g.to) {
			return fires
		}
		if r.Now = look(f.Next); r.Now.After(g.to) {
			r.Now = g.to
		}
	}
}

func instants(t *testing.T, g golden, fires []fire) (times []time.Time) {
	t.Helper()
	for _, one := range fires {
		if one.Skip != "" {
			t.Fatalf("%s in %s: %s does not run: %s", g.cron, g.zone, one.At, one.Skip)
		}
		times = append(times, one.At)
	}
	return times
}

// computesLong leaves a test out under the race detector, where it takes ten times as long: one goroutine has nothing
// to race with. make test runs it without.
func computesLong(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("one goroutine that computes for long; run without -race")
	}
}

// A simulated clock runs through whole years, and through the days around rarer changes of clocks: a leader that
// looks at each next fire in time forks exactly the fires of the golden tables.
func TestYears(t *testing.T) {
	t.Parallel()
	computesLong(t)
	zones := map[string]bool{}
	for _, g := range goldens(t) {
		if g.fires > 10000 && g.to.Year() == 2028 {
			continue // they take their time, and have 2026
		}
		zones[g.zone+" "+g.cron] = true
		g.is(t, instants(t, g, g.simulate(t, nil, func(next time.Time) time.Time { return next })))
	}
	// Beirut has no midnight in March.
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "UTC"} {
		for _, cron := range []string{
			"@daily", "30 2 * * *", "@hourly", "*/15 * * * *", "@every 45m", "0 12 31 * *", "0 3 29 2 *",
			"0 6 13 * FRI",
		} {
			if !zones[zone+" "+cron] {
				t.Errorf("no table of %s in %s", cron, zone)
			}
		}
	}
}

// A leader that is away again and again, for up to ten days, makes up for each fire exactly once, with catch_up all.
func TestYearsWithALeaderThatIsOftenAway(t *testing.T) {
	t.Parallel()
	computesLong(t)
	for i, g := range goldens(t) {
		if g.fires > 10000 && i%3 > 0 {
			continue
		}
		random := rand.New(rand.NewPCG(1, uint64(i)))
		late := func(next time.Time) time.Time { return next.Add(time.Duration(random.Int64N(int64(240 * time.Hour)))) }
		g.is(t, instants(t, g, g.simulate(t, func(r *Task) { r.CatchUp = "all" }, late)))
	}
}

// Whatever does not run is told: with catch_up latest and none, each fire is run or has a row, as long as a
// row is for one fire.
func TestYearsTellOfEachFire(t *testing.T) {
	t.Parallel()
	computesLong(t)
	for i, g := range goldens(t) {
		if g.fires > 10000 || i%4 > 0 {
			continue
		}
		for _, policy := range []string{"latest", "none"} {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			late := func(next time.Time) time.Time {
				return next.Add(time.Duration(random.Int64N(int64(24 * time.Hour))))
			}
			var times []time.Time
			runs := 0
			for _, one := range g.simulate(t, func(r *Task) { r.CatchUp = policy }, late) {
				if strings.Contains(one.Skip, "so were the fires") {
					t.Fatalf("%s: more than %d in a day", g.cron, MaxSkipped)
				}
				if one.Skip == "" {
					runs++
				}
				times = append(times, one.At)
			}
			if g.is(t, times); policy == "latest" && runs == 0 && g.fires > 0 {
				t.Errorf("%s in %s: none ran", g.cron, g.zone)
			}
		}
	}
}
