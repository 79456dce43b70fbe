package cmd

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
)

// printSettings are the options that say how a command prints.
type printSettings struct {
	format  string
	zone    *time.Location
	noColor bool
}

const (
	asTable = "table"
	asJSON  = "json"
)

func (s *printSettings) options() []options.Option {
	return []options.Option{
		{Flag: "output", Short: "o", Variable: "TASKTABLE_OUTPUT", Kind: "format", Default: asTable,
			Set: options.OneOf(&s.format, asTable, asJSON), Complete: options.Words(asTable, asJSON),
			Usage: "table for people, or json: one document, an array for a list, with times in UTC and the names " +
				"of the columns"},
		{Flag: "time-zone", Variable: "TASKTABLE_TIME_ZONE", Kind: "zone", Set: options.TimeZone(&s.zone),
			Usage: "the IANA zone of the times in tables, and of times that are given without one (default this " +
				"machine's)"},
		{Flag: "no-color", Variable: "TASKTABLE_NO_COLOR", Set: options.Bool(&s.noColor),
			Usage: "no colors; there are none either if NO_COLOR is set, or if the output is no terminal"},
	}
}

// printer prints to the program's stdout and stderr. now is the database's time.
func (s *printSettings) printer(ctx context.Context, p *program, now time.Time) term.Printer {
	colors := !s.noColor && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb"
	return term.NewPrinter(ctx, p.stdout, p.stderr, term.Clock{Now: now, Zone: s.location()}, s.format == asJSON,
		colors)
}

// clock serves checks that run before the database's time is known. It goes by this machine's time.
func (s *printSettings) clock() term.Clock { return term.Clock{Now: time.Now(), Zone: s.location()} }

func (s *printSettings) location() *time.Location {
	if s.zone == nil {
		return time.Local
	}
	return s.zone
}
