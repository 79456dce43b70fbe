package recurrence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool(
	"update", false, "write the golden tables of testdata anew, by walking through time; takes a minute",
)

// anchor is where the golden tables' @every counts from.
var anchor = utc("2001-02-03T04:05:06Z")

var schedules = []string{
	"@daily", "30 2 * * *", "30 1 * * *", "45 1 * * *", "30 23 * * *", "0 9 * * MON-FRI", // once a day
	"0,30 0-3 * * *", "15 2,3 * * *", "0 0-23 * * *", // fixed times, several of which may fall into a gap
	"@hourly", "*/15 * * * *", "0/20 2 * * *", "*/20 1,2,23 * * SAT,SUN", // wildcards
	"15 30 2 * * *", "*/20 30 2 * * *", // seconds
	"@every 17m30s", "@every 45m", "@every 24h", // elapsed time
	"0 12 31 * *", "59 23 28-31 * *", "0 3 29 2 *", "@monthly", "@weekly", "@yearly", // ends of months, the leap day
	"0 6 13 * FRI", "0 0 */10 * 0", "0 6 13 * *", // day of month and day of week
}

// TestGolden: the tables in testdata, of fires found by a walk through time that knows nothing of this package, are
// what Between lists.
func TestGolden(t *testing.T) {
	for _, s := range years {
		t.Run(s.zone+" "+stamp(s.to)[:4], func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(s.zone, "/", "_") + "_" + stamp(s.to)[:4]
			compare(t, name, []stretch{s})
		})
	}
	t.Run("oddities", func(t *testing.T) {
		t.Parallel()
		compare(t, "oddities", oddities)
	})
}

func compare(t *testing.T, name string, stretches []stretch) {
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, tables(stretches, walked), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := tables(stretches, func(s stretch, expression string) []int64 {
		rule := mustParse(t, expression, s.zone).Anchored(time.Unix(anchor, 0))
		fires, more := rule.Between(time.Unix(s.from, 0), time.Unix(s.to, 0), 1_000_000)
		if more {
			t.Error("there are more")
		}
		return seconds(fires)
	})
	if bytes.Equal(golden, got) {
		return
	}
	table := ""
	want, have := strings.Split(string(golden), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(want), len(have)) {
		if strings.HasPrefix(want[i], "# ") {
			table = want[i]
		}
		if want[i] != have[i] {
			t.Fatalf("%s:%d: in the table of %s\ngot  %s\nwant %s", path, i+1, table, have[i], want[i])
		}
	}
	t.Fatalf("%s has %d lines, got %d", path, len(want), len(have))
}

func walked(s stretch, expression string) []int64 {
	return planOf(expression, anchor).brute(s, s.from, s.to)
}

// tables is a table for each stretch and schedule: how many fires, the SHA-256 of all their Unix seconds (8
// bytes each, big endian), and of those near a change of the clocks, or of all if they are few, the instant
// and the wall clock.
func tables(stretches []stretch, fires func(stretch, string) []int64) []byte {
	var out bytes.Buffer
	fmt.Fprintln(
		&out,
		"Fires, found by walking through time with the offsets of the IANA rules cited in zones_test.go (go test "+
			"-update).",
	)
	for _, s := range stretches {
		for _, expression := range schedules {
			all := fires(s, expression)
			var encoded []byte
			for _, fire := range all {
				encoded = binary.BigEndian.AppendUint64(encoded, uint64(fire))
			}
			hash := sha256.Sum256(encoded)
			fmt.Fprintf(
				&out, "\n# %s in %s, after %s until %s: %d, %x\n", expression, s.zone, stamp(s.from), stamp(s.to),
				len(all), hash[:8],
			)
			for _, fire := range all {
				if s.shows(fire, len(all)) {
					wall := time.Unix(fire+s.offsetAt(fire), 0).UTC().Format("Mon 2006-01-02 15:04:05")
					fmt.Fprintf(&out, "%s  %s %+d\n", stamp(fire), wall, s.offsetAt(fire)/60)
				}
			}
		}
	}
	return out.Bytes()
}

func (s stretch) shows(fire int64, of int) bool {
	if of <= 12 {
		return true
	}
	near := int64(26 * 3600)
	if int64(of) > (s.to-s.from)/86400 { // more than one a day
		near = 3600 + 900
	}
	for _, c := range s.changes {
		if fire >= c.at-near && fire <= c.at+near {
			return true
		}
	}
	return false
}

func seconds(times []time.Time) []int64 {
	list := make([]int64, len(times))
	for i, at := range times {
		list[i] = at.Unix()
	}
	return list
}
