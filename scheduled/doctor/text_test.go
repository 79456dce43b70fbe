package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestTextsOfFindings(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		short(0):                                   "0s",
		short(123456 * time.Nanosecond):            "120µs",
		short(62*time.Millisecond + 340000):        "62.3ms",
		short(1500 * time.Millisecond):             "1.5s",
		short(time.Minute):                         "1m",
		short(61 * time.Second):                    "1m1s",
		short(2 * time.Hour):                       "2h0m",
		short(2*time.Minute + 30*time.Second):      "2m30s",
		short(3*time.Minute + 50*time.Second):      "3m50s",
		short(47*time.Hour + 3*time.Second):        "47h0m3s",
		short(100 * time.Hour):                     "4 days",
		short(-time.Second):                        "-1s",
		seconds(0.25):                              "250ms",
		bytes(1 << 20):                             "1024 kB",
		bytes(300 << 20):                           "300 MB",
		several(1, "node"):                         "1 node",
		several(int64(0), "node"):                  "0 nodes",
		line("two\nlines\tand \x1b[31mred"):        "two lines and [31mred",
		word("type:SEND_EMAIL"):                    "type:SEND_EMAIL",
		word("a[b]"):                               "'a[b]'",
		word("it's"):                               `'it'\''s'`,
		quoted("it's"):                             "'it''s'",
		named(`a"b`):                               `"a""b"`,
		concurrently("CREATE UNIQUE INDEX a ON b"): "CREATE UNIQUE INDEX CONCURRENTLY a ON b",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := []rune(line(strings.Repeat("é", 1000))); len(got) != lineMost+1 {
		t.Errorf("a long text has %d characters", len(got))
	}
}

func TestTheWorstOfAReport(t *testing.T) {
	t.Parallel()
	var report Report
	for _, test := range []struct {
		level, worst Level
	}{{OK, OK}, {Info, Info}, {OK, Info}, {Error, Error}, {Warning, Error}} {
		report.Findings = append(report.Findings, Finding{Level: test.level})
		if got := report.Worst(); got != test.worst {
			t.Errorf("after %s it is %s", test.level, got)
		}
	}
	if report.Count(OK) != 2 || report.Count(Error) != 1 {
		t.Errorf("it counts %d ok, %d errors", report.Count(OK), report.Count(Error))
	}
}
