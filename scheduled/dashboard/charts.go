package dashboard

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/chart"
	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store/inspect"
)

// window is a time before now for which the overview draws charts.
type window struct {
	Name   string
	Length time.Duration
	Bucket time.Duration
}

var windows = []window{
	{"1h", time.Hour, time.Minute}, {"6h", 6 * time.Hour, 5 * time.Minute},
	{"24h", 24 * time.Hour, 15 * time.Minute}, {"7d", 7 * 24 * time.Hour, 2 * time.Hour},
}

const defaultWindow = "6h"

func windowOf(name string) (window, error) {
	if name == "" {
		name = defaultWindow
	}
	for _, one := range windows {
		if one.Name == name {
			return one, nil
		}
	}
	return window{}, notValid("window must be 1h, 6h, 24h or 7d.")
}

const (
	// bucketSettles is how long after its end a bucket is read again, because attempts that ended in it may be
	// recorded a little later.
	bucketSettles = 10 * time.Second
	// maxTypesRead is how many attempts are read to tell which types are the busiest.
	maxTypesRead = 20000
	typesFresh   = 2 * time.Second
)

// history keeps the numbers of the charts of a window. It has as many buckets as the window, so its size is bounded.
type history struct {
	buckets *kept[bucketsRead]
	types   *kept[inspect.Throughput]
}

type bucketsRead struct {
	buckets []inspect.Bucket
	at      time.Time // the database's
}

func newHistories() map[string]history {
	made := map[string]history{}
	for _, one := range windows {
		made[one.Name] = history{newKept[bucketsRead](), newKept[inspect.Throughput]()}
	}
	return made
}

// series returns the buckets of a window. Buckets that have ended are read once. The newest is read again, at most
// once a second, and less often if it is long.
func (v *visit) series(ctx context.Context, w window) ([]inspect.Bucket, error) {
	read, err := v.board.histories[w.Name].buckets.get(ctx, max(time.Second, w.Bucket/300),
		func(former bucketsRead) (bucketsRead, error) {
			from := v.now.UTC().Truncate(w.Bucket).Add(w.Bucket - w.Length)
			known := ended(former, from)
			filter := inspect.SeriesFilter{From: from, To: from.Add(w.Length), Bucket: w.Bucket}
			if len(known) > 0 {
				filter.From = known[len(known)-1].To
			}
			newer, err := v.inspector.Series(ctx, v.db, filter)
			return bucketsRead{slices.Concat(known, newer), v.now}, err
		})
	return read.buckets, err
}

// ended returns the buckets from a time on that had ended for good when they were read.
func ended(former bucketsRead, from time.Time) (known []inspect.Bucket) {
	for _, one := range former.buckets {
		begins := len(known) == 0 && one.From.Equal(from) || len(known) > 0 && one.From.Equal(known[len(known)-1].To)
		if begins && !one.To.Add(bucketSettles).After(former.at) {
			known = append(known, one)
		}
	}
	return known
}

// busiest returns what the types did within a window.
func (v *visit) busiest(ctx context.Context, w window) (inspect.Throughput, error) {
	return v.board.histories[w.Name].types.get(ctx, typesFresh, func(inspect.Throughput) (inspect.Throughput, error) {
		return v.inspector.Throughput(ctx, v.db, inspect.StatsFilter{Window: w.Length, Most: maxTypesRead})
	})
}

// chartsView has the charts of a window.
type chartsView struct {
	Attempts, Delays template.HTML
	Lines            []bucketLine // the same numbers, the newest first
	None             bool         // no attempt ended
	Estimated        bool
}

type bucketLine struct {
	Span string
	inspect.Bucket
}

// minBuckets is how many buckets a chart has at least.
const minBuckets = 12

// ends are the ways in which an attempt ends, in the order of countsOf.
var ends = []string{"completed", "retried", "failed", "lost", "ended otherwise"}

func countsOf(one inspect.Bucket) []int64 {
	return []int64{one.Completed, one.Retried, one.Failed, one.Lost, one.Other}
}

func isPositive(count int64) bool { return count > 0 }

// sinceTheFirst leaves out the empty buckets before the first one with an attempt, so that the charts of a fresh
// installation do not stand at the right edge.
func sinceTheFirst(buckets []inspect.Bucket) []inspect.Bucket {
	first := slices.IndexFunc(buckets, func(one inspect.Bucket) bool {
		return slices.ContainsFunc(countsOf(one), isPositive) || one.DelayP95 != nil
	})
	return buckets[max(0, min(first-1, len(buckets)-minBuckets)):]
}

func chartsOf(buckets []inspect.Bucket, w window, zone *time.Location) chartsView {
	buckets = sinceTheFirst(buckets)
	axis := chart.Axis{Bucket: w.Bucket, Count: len(buckets), Zone: zone}
	if len(buckets) > 0 {
		axis.From = buckets[0].From
	}
	parts := []chart.Part{{Name: "completed", Class: "good"}, {Name: "retried", Class: "warn"},
		{Name: "failed", Class: "bad"}, {Name: "lost", Class: "busy"}, {Name: "other", Class: "faint"}}
	half, most := chart.Line{Name: "half within", Class: "line"}, chart.Line{Name: "95 % within", Class: "line second"}
	var view chartsView
	sums := make([]int64, len(parts))
	var longest *time.Duration // of the delays that 95 % are within
	for i, one := range buckets {
		for at, count := range countsOf(one) {
			parts[at].Values = append(parts[at].Values, count)
			sums[at] += count
		}
		half.Values, most.Values = append(half.Values, one.DelayP50), append(most.Values, one.DelayP95)
		if one.DelayP95 != nil && (longest == nil || *one.DelayP95 > *longest) {
			longest = one.DelayP95
		}
		view.Estimated = view.Estimated || one.Estimated
		view.Lines = append(view.Lines, bucketLine{axis.Span(i), one})
	}
	slices.Reverse(view.Lines)
	view.None = !slices.ContainsFunc(sums, isPositive)
	view.Attempts = chart.Bars(axis, attemptsSummary(sums, w), parts...)
	view.Delays = chart.Lines(axis, delaysSummary(longest, w), half, most)
	return view
}

// attemptsSummary is for people who do not see the chart.
func attemptsSummary(sums []int64, w window) string {
	var told []string
	for at, sum := range sums {
		if sum > 0 || at == 0 {
			told = append(told, words.Count(sum, false)+" "+ends[at])
		}
	}
	return fmt.Sprintf("Bars of the attempts that ended in the last %s: %s.", w.Name, strings.Join(told, ", "))
}

func delaysSummary(longest *time.Duration, w window) string {
	if longest == nil {
		return fmt.Sprintf("Lines of the start delay. No attempt started in the last %s.", w.Name)
	}
	return fmt.Sprintf("Lines of the start delay in the last %s. In each %s, 95 of 100 attempts started within %s or "+
		"less.", w.Name, words.Short(w.Bucket), words.Took(*longest))
}
