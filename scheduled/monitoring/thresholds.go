package monitoring

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/metrics"
)

// Thresholds are the numbers in the alert rules. Start from DefaultThresholds.
type Thresholds struct {
	NoNodeAfter        time.Duration // how long a task is due in a lane without a node
	LateAfter          time.Duration // how long a task is due and not claimed
	QueueDepth         int           // due tasks that wait in a queue, without paused ones
	StartsLateAfter    time.Duration // how late 1 of 100 attempts begins
	DeadLetters        int           // dead letters of a type within an hour
	FailureRatio       float64       // the part of a type's attempts that fail
	ClaimsLost         int           // lost claims of a type within half an hour
	SlowAfter          time.Duration // how long 1 of 10 passes or settles takes
	PausedFor          time.Duration // how long something is paused
	RecurringIntervals int           // intervals without a success of a recurring task, at most 10

	// The service level objectives.
	StartWithin  time.Duration // one of StartBuckets
	StartRatio   float64       // the part of the attempts that begins within StartWithin
	SuccessRatio float64       // the part of the tasks that succeeds
	APIRatio     float64       // the part of the API's calls that is not answered with 5xx
	MinBad       int           // how many bad tasks or calls there must be for an alert
}

// DefaultThresholds are those of Alerts.
func DefaultThresholds() Thresholds {
	return Thresholds{
		NoNodeAfter: time.Minute, LateAfter: 5 * time.Minute, QueueDepth: 1000,
		StartsLateAfter: time.Minute, DeadLetters: 10, FailureRatio: 0.25, ClaimsLost: 10, SlowAfter: time.Second,
		PausedFor: 24 * time.Hour, RecurringIntervals: 2,
		StartWithin: 5 * time.Second, StartRatio: 0.999, SuccessRatio: 0.9999, APIRatio: 0.999, MinBad: 10,
	}
}

// The least and the greatest ratio of an objective. With a lower one 14.4 times the error budget would be more than
// all, so that the alert could not fire.
const (
	MinRatio = 0.95
	MaxRatio = 0.99999
)

// StartBuckets are the values that StartWithin may have: the bounds of the histogram of start delays.
func StartBuckets() (bounds []time.Duration) {
	for _, seconds := range metrics.WaitBuckets() {
		bounds = append(bounds, time.Duration(math.Round(seconds*1e6))*time.Microsecond)
	}
	return bounds
}

//go:embed alerts.yaml.tmpl
var alertsTemplate string

var alerts = template.Must(template.New("alerts").Delims("[[", "]]").Funcs(template.FuncMap{
	"seconds": func(d time.Duration) string { return number(d.Seconds()) },
	"span":    span,
	"number":  number,
	"windows": func() []string { return []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} },
}).Parse(alertsTemplate))

// AlertsWith returns a Prometheus rule file with these thresholds. Its error names each field that is wrong.
func AlertsWith(t Thresholds) (string, error) {
	if err := t.validate(); err != nil {
		return "", err
	}
	var text strings.Builder
	if err := alerts.Execute(&text, t); err != nil {
		return "", fmt.Errorf("write the alert rules: %w", err)
	}
	return text.String(), nil
}

func (t Thresholds) validate() error {
	var errs []error
	check := func(name string, ok bool, rule string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be %s, not %v", name, rule, value))
		}
	}
	spans := map[string]time.Duration{"NoNodeAfter": t.NoNodeAfter, "LateAfter": t.LateAfter,
		"StartsLateAfter": t.StartsLateAfter, "SlowAfter": t.SlowAfter, "PausedFor": t.PausedFor}
	for name, value := range spans {
		check(name, value >= time.Millisecond, "at least 1ms", value)
	}
	for name, value := range map[string]float64{
		"StartRatio": t.StartRatio, "SuccessRatio": t.SuccessRatio, "APIRatio": t.APIRatio,
	} {
		check(name, value >= MinRatio && value <= MaxRatio, "between 0.95 and 0.99999", value)
	}
	check("FailureRatio", t.FailureRatio > 0 && t.FailureRatio < 1, "over 0 and below 1", t.FailureRatio)
	check("QueueDepth", t.QueueDepth >= 0, "at least 0", t.QueueDepth)
	check("DeadLetters", t.DeadLetters >= 0, "at least 0", t.DeadLetters)
	check("ClaimsLost", t.ClaimsLost >= 0, "at least 0", t.ClaimsLost)
	check("MinBad", t.MinBad >= 1, "at least 1", t.MinBad)
	check("RecurringIntervals", t.RecurringIntervals >= 1 && t.RecurringIntervals <= 10, "between 1 and 10",
		t.RecurringIntervals)
	check("StartWithin", slices.Contains(StartBuckets(), t.StartWithin), fmt.Sprintf("one of %v", StartBuckets()),
		t.StartWithin)
	return errors.Join(errs...)
}

// number writes a number without the errors of binary fractions.
func number(value float64) string { return strconv.FormatFloat(value, 'g', 6, 64) }

// span writes a duration as Prometheus reads it.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
