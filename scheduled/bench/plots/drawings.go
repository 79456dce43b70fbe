package main

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var drawings = []drawing{
	{"throughput", "drain", throughput},
	{"delay", "precise", delay},
	{"day", "ramp", day},
	{"table", "scale", table},
}

// throughput shows tasks a second as bars.
func throughput(to *plot.Plot, in theme, results []figures) error {
	to.Title.Text, to.Y.Label.Text, to.Y.Min = "Tasks that do nothing, one node", "a second", 0
	last := results[len(results)-1]
	bars := []struct{ figure, label string }{
		{"tasks_per_s", "Tasktable"}, {"river_per_s", "River alone"}, {"floor_per_s", "the SQL alone"},
	}
	var labels []string
	for i, bar := range bars {
		chart, err := plotter.NewBarChart(plotter.Values{last[bar.figure]}, 60)
		if err != nil {
			return fmt.Errorf("%s: %w", bar.figure, err)
		}
		chart.XMin, chart.Color, chart.LineStyle.Width = float64(i), in.lines[i], 0
		to.Add(chart)
		labels = append(labels, fmt.Sprintf("%s: %.0f", bar.label, last[bar.figure]))
		to.Y.Max = max(to.Y.Max, 1.05*last[bar.figure])
	}
	to.NominalX(labels...)
	to.X.Min, to.X.Max = -0.6, 2.6
	return nil
}

// delay shows how long after its time a task starts. The axis is logarithmic.
func delay(to *plot.Plot, in theme, results []figures) error {
	to.Title.Text, to.Y.Label.Text = "From a task's time to its start", "ms"
	to.Y.Scale, to.Y.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
	last := results[len(results)-1]
	points := []struct {
		figure, label string
		color         int
	}{
		{"p50_ms", "Tasktable, half", 0}, {"p99_ms", "99 of 100", 0},
		{"river_p50_ms", "River, half", 1}, {"river_p99_ms", "99 of 100", 1},
	}
	var labels []string
	for i, point := range points {
		dot, err := plotter.NewScatter(plotter.XYs{{X: float64(i), Y: last[point.figure]}})
		if err != nil {
			return fmt.Errorf("%s: %w", point.figure, err)
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: in.lines[point.color], Radius: 6, Shape: draw.CircleGlyph{}}
		to.Add(dot)
		labels = append(labels, fmt.Sprintf("%s: %s", point.label, shown(last[point.figure])))
	}
	to.NominalX(labels...)
	to.X.Min, to.X.Max, to.Y.Min, to.Y.Max = -0.5, 3.5, 0.1, 10000
	return nil
}

// day shows the load of each hour, and how late its tasks start.
func day(to *plot.Plot, in theme, results []figures) error {
	last := results[len(results)-1]
	to.Title.Text = fmt.Sprintf("A day in a minute: up to %.0f tasks a second at noon", last["hour_12_per_s"])
	to.X.Label.Text, to.Y.Label.Text, to.Y.Min = "hour", "ms from due to start", 0
	for i, line := range []struct{ figure, label string }{{"p50_ms", "half"}, {"p99_ms", "99 of 100"}} {
		var points plotter.XYs
		for hour := range 24 {
			points = append(points, plotter.XY{
				X: float64(hour), Y: last[fmt.Sprintf("hour_%02d_%s", hour, line.figure)],
			})
			to.Y.Max = max(to.Y.Max, 1.4*points[hour].Y)
		}
		if err := addLine(to, in, i, line.label, points); err != nil {
			return err
		}
	}
	return nil
}

// table shows how long a look and a pass take in tables of several sizes.
func table(to *plot.Plot, in theme, results []figures) error {
	to.Title.Text, to.X.Label.Text, to.Y.Label.Text = "The leader's statements, by the size of the table", "rows", "ms"
	to.X.Scale, to.X.Tick.Marker, to.Y.Min = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}, 0
	slices.SortFunc(results, func(a, b figures) int { return cmp.Compare(a["rows"], b["rows"]) })
	for i, line := range []struct{ figure, label string }{
		{"peek_ms", "a look"}, {"pass_ms", "a pass that claims 100 tasks"},
	} {
		var points plotter.XYs
		for _, result := range results {
			points = append(points, plotter.XY{X: result["rows"], Y: result[line.figure]})
			to.Y.Max = max(to.Y.Max, 1.4*result[line.figure])
		}
		if err := addLine(to, in, i, line.label, points); err != nil {
			return err
		}
	}
	return nil
}

func addLine(to *plot.Plot, in theme, i int, label string, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	line.Color, line.Width = in.lines[i], vg.Points(2)
	dots.GlyphStyle = draw.GlyphStyle{Color: in.lines[i], Radius: 3, Shape: draw.CircleGlyph{}}
	to.Add(line, dots)
	to.Legend.Add(label, line)
	return nil
}

// shown is a number of milliseconds as a label shows it.
func shown(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
