// Command plots draws the figures of the benches: go run . FOLDER < FIGURES, where FIGURES are the lines that
// `bench NAME -json` prints. It draws each plot in light and in dark colors. It is a module of its own, so that the
// root module does not need what draws.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FOLDER < FIGURES")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// figures are the results of one bench, by the names of their figures.
type figures map[string]float64

// read reads results by the names of their benches. A bench may have run several times.
func read(from io.Reader) (map[string][]figures, error) {
	results := map[string][]figures{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var object map[string]any
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			return nil, fmt.Errorf("figures: %w", err)
		}
		name, _ := object["bench"].(string)
		result := figures{}
		for figure, value := range object {
			if number, is := value.(float64); is {
				result[figure] = number
			}
		}
		results[name] = append(results[name], result)
	}
	return results, lines.Err()
}

// theme is the colors of a plot.
type theme struct {
	name  string
	ink   color.Color
	lines []color.Color
}

var themes = []theme{
	{"light", color.Gray{0x1f}, []color.Color{rgb(0x0a58ca), rgb(0xb35900), rgb(0x5c636a)}},
	{"dark", color.Gray{0xe6}, []color.Color{rgb(0x6ea8fe), rgb(0xffb35c), rgb(0xadb5bd)}},
}

func rgb(hex uint32) color.Color {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// drawing is a plot that a bench's results are drawn as.
type drawing struct {
	name, bench string
	draw        func(to *plot.Plot, in theme, results []figures) error
}

func run(from io.Reader, folder string) error {
	results, err := read(from)
	if err != nil {
		return err
	}
	for _, one := range drawings {
		if len(results[one.bench]) == 0 {
			return fmt.Errorf("there are no figures of the bench %s", one.bench)
		}
		for _, in := range themes {
			to := blank(in)
			if err := one.draw(to, in, results[one.bench]); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if err := save(to, filepath.Join(folder, one.name+"-"+in.name+".svg")); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	return nil
}

// blank is a plot without data. Its background is that of the page.
func blank(in theme) *plot.Plot {
	to := plot.New()
	to.BackgroundColor = color.Transparent
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	to.Title.TextStyle.Color, to.Title.TextStyle.Font, to.Title.Padding = in.ink, sans(13), 8
	to.Legend.TextStyle.Color, to.Legend.TextStyle.Font = in.ink, sans(11)
	to.Legend.Top, to.Legend.Left, to.Legend.Padding = true, true, 2
	for _, axis := range []*plot.Axis{&to.X, &to.Y} {
		axis.Color, axis.Tick.Color = in.ink, in.ink
		axis.Label.TextStyle.Color, axis.Label.TextStyle.Font = in.ink, sans(11)
		axis.Tick.Label.Color, axis.Tick.Label.Font = in.ink, sans(10)
		axis.Tick.Marker = plain{plot.DefaultTicks{}}
	}
	return to
}

// plain writes the numbers at an axis without exponents and without zeros behind the point.
type plain struct{ plot.Ticker }

// Ticks are those of the other ticker.
func (p plain) Ticks(low, high float64) []plot.Tick {
	ticks := p.Ticker.Ticks(low, high)
	for i, tick := range ticks {
		if !tick.IsMinor() {
			ticks[i].Label = strconv.FormatFloat(tick.Value, 'f', -1, 64)
		}
	}
	return ticks
}

func save(to *plot.Plot, path string) (err error) {
	canvas := vgsvg.New(560, 260)
	to.Draw(draw.New(canvas))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = canvas.WriteTo(file)
	return err
}
