package term

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tasktable/tasktable/store"
)

// PrintReconcile prints the findings of a reconcile, and the changes it has made.
func PrintReconcile(w io.Writer, report store.ReconcileReport) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	findings := []struct {
		kind, meaning string
		store.ReconcileFinding
	}{
		{"missing", "do not exist", report.Missing},
		{"cancelled", "were cancelled", report.Cancelled},
		{"ended", "have ended at another time", report.Ended},
		{"wrong time", "wait for another time", report.WrongTime},
		{"other content", "wait for the right time, and differ in another field", report.OtherContent},
		{"orphaned", "wait, and the query does not yield them", report.Orphaned},
	}
	fmt.Fprintf(table, "%s\tTASKS\tMEANING\n", report.Type)
	fmt.Fprintf(table, "agree\t%d\twait as the query says\n", report.Agree)
	fmt.Fprintf(table, "finished\t%d\thave ended at the time that the query says\n", report.Finished)
	for _, finding := range findings {
		fmt.Fprintf(table, "%s\t%d\t%s\n", finding.kind, finding.Count, finding.meaning)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	heading := "\nEXAMPLES\tID\tIS\tOUGHT TO BE\n"
	for _, finding := range findings {
		for _, example := range finding.Examples {
			fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", heading, finding.kind, example.ID, isText(example),
				oughtText(finding.kind, example))
			heading = ""
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", ReconcileSummary(report))
	return err
}

func isText(example store.ReconcileExample) string {
	if example.Status == "" {
		return "absent"
	}
	return string(example.Status) + " " + utc(example.At)
}

func oughtText(kind string, example store.ReconcileExample) string {
	switch {
	case example.Wanted == nil:
		return "absent"
	case kind == "other content":
		return "with another " + example.Fields
	case example.Fields != "":
		return utc(example.Wanted) + ", with another " + example.Fields
	}
	return utc(example.Wanted)
}

func utc(at *time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// ReconcileSummary is the last sentence of PrintReconcile.
func ReconcileSummary(report store.ReconcileReport) string {
	switch {
	case report.Drift() == 0:
		return "All agree."
	case !report.Applied:
		return "Nothing was changed."
	}
	return mendedSentence(report) + leftSentence(report.Left)
}

func leftSentence(tasks int) string {
	switch tasks {
	case 0:
		return ""
	case 1:
		return "\n1 task that has ended at another time was left as it is; --rearm runs it again."
	}
	return fmt.Sprintf("\n%d tasks that have ended at another time were left as they are; --rearm runs them again.",
		tasks)
}

func mendedSentence(report store.ReconcileReport) string {
	var done []string
	for _, outcome := range []store.Outcome{store.Created, store.Rescheduled, store.Rearmed, store.Cancelled,
		store.Unchanged, store.Finished} {
		if count := report.Done[outcome]; count > 0 {
			done = append(done, fmt.Sprintf("%d %s", count, outcome))
		}
	}
	if len(done) == 0 {
		return "Nothing was changed."
	}
	return "Mended: " + strings.Join(done, ", ") + "."
}
