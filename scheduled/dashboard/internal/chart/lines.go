package chart

import (
	"html/template"
	"math"
	"strings"
	"time"
)

// Line is a line of durations.
type Line struct {
	Name   string
	Class  string
	Values []*time.Duration // one for each bucket; nil leaves a gap
}

// logFrom is how many times as great as the least duration the greatest must be for a logarithmic axis. Below that, a
// linear axis shows more.
const logFrom = 20

// Lines draws durations over time.
func Lines(axis Axis, summary string, lines ...Line) template.HTML {
	ticks, y := durationAxis(lines)
	var d drawing
	d.begin(summary)
	d.axes(axis, ticks, y)
	for _, line := range lines {
		d.line(axis, line, y)
	}
	d.titles(axis, lines)
	return d.end()
}

// line draws one line, with a gap where a bucket has no value. A value between two gaps becomes a dot, because a line
// of one point would not be seen.
func (d *drawing) line(axis Axis, line Line, y func(float64) float64) {
	var path strings.Builder
	known := func(bucket int) bool {
		return bucket >= 0 && bucket < len(line.Values) && line.Values[bucket] != nil
	}
	for bucket, value := range line.Values {
		if value == nil {
			continue
		}
		atX, atY := number(axis.x(float64(bucket)+0.5)), number(y(value.Seconds()))
		switch {
		case known(bucket - 1):
			path.WriteString("L" + atX + " " + atY)
		case known(bucket + 1):
			path.WriteString("M" + atX + " " + atY)
		default:
			d.add(`<circle class="%s" cx="%s" cy="%s" r="2"/>`, escape(line.Class), atX, atY)
		}
	}
	if path.Len() > 0 {
		d.add(`<path class="%s" stroke-linejoin="round" d="%s"/>`, escape(line.Class), path.String())
	}
}

// titles lays an invisible area over each bucket. A browser shows its title when the mouse is there.
func (d *drawing) titles(axis Axis, lines []Line) {
	for bucket := range axis.Count {
		var told []string
		for _, line := range lines {
			if value := line.Values[bucket]; value != nil {
				told = append(told, line.Name+" "+durationText(*value))
			}
		}
		if len(told) == 0 {
			continue
		}
		d.add(`<g><title>%s</title><rect fill="none" pointer-events="all" x="%s" y="%s" width="%s" height="%s"/></g>`,
			escape(axis.Span(bucket)+": "+strings.Join(told, ", ")), number(axis.x(float64(bucket))), number(top),
			number(axis.x(1)-axis.x(0)), number(height-top-bottom))
	}
}

// grid are the durations that the axis may have labels for. Each is about ten times the one before.
var grid = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
	10 * time.Minute, time.Hour, 10 * time.Hour, 4 * 24 * time.Hour, 40 * 24 * time.Hour, 400 * 24 * time.Hour,
}

// durationAxis returns the labels, and the function that places a duration in seconds.
func durationAxis(lines []Line) ([]tick, func(float64) float64) {
	least, greatest := time.Duration(math.MaxInt64), time.Duration(0)
	for _, line := range lines {
		for _, value := range line.Values {
			if value != nil {
				least, greatest = min(least, *value), max(greatest, *value)
			}
		}
	}
	least = max(least, grid[0])
	if greatest/logFrom < least {
		return linearAxis(max(greatest, grid[0]))
	}
	first, last := 0, len(grid)-1
	for first < last-1 && grid[first+1] <= least {
		first++
	}
	for last > first+1 && grid[last-1] >= greatest {
		last--
	}
	var ticks []tick
	for _, one := range grid[first : last+1] {
		ticks = append(ticks, tick{one.Seconds(), durationText(one)})
	}
	low, high := math.Log(grid[first].Seconds()), math.Log(grid[last].Seconds())
	return ticks, func(seconds float64) float64 {
		share := (math.Log(max(seconds, 1e-9)) - low) / (high - low)
		return place(min(max(share, 0), 1))
	}
}

// halves are durations whose halves people read easily, too.
var halves = []time.Duration{
	2 * time.Second, 4 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
	10 * time.Minute, 20 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

func linearAxis(greatest time.Duration) ([]tick, func(float64) float64) {
	ceiling := time.Duration(0)
	switch {
	case greatest <= time.Second:
		ceiling = time.Duration(roundUp(math.Ceil(greatest.Seconds()*1000))) * time.Millisecond
	case greatest > halves[len(halves)-1]:
		ceiling = time.Duration(roundUp(math.Ceil(greatest.Hours()/24))) * 24 * time.Hour
	default:
		for _, one := range halves {
			if ceiling = one; one >= greatest {
				break
			}
		}
	}
	ticks := []tick{{0, "0"}}
	for _, one := range []time.Duration{ceiling / 2, ceiling} {
		ticks = append(ticks, tick{one.Seconds(), durationText(one)})
	}
	return ticks, func(seconds float64) float64 {
		return place(min(max(seconds/ceiling.Seconds(), 0), 1))
	}
}

// durationText is a duration in its greatest unit, such as 20 ms, 1.5 s or 10 min.
func durationText(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d >= unit.size {
			return number(float64(d)/float64(unit.size)) + " " + unit.name
		}
	}
	return number(float64(d)/float64(time.Millisecond)) + " ms"
}
