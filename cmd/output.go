package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"
)

// printSettings say how a command prints.
type printSettings struct {
	format  string
	zone    *time.Location
	noColor bool
}

const (
	asTable = "table"
	asJSON  = "json"
)

func (s *printSettings) options() []option {
	return []option{
		{flag: "output", short: "o", variable: "TASKTABLE_OUTPUT", value: "format", fallback: asTable,
			set: choice(&s.format, asTable, asJSON), complete: words(asTable, asJSON),
			usage: "table for people, or json: one document, an array for a list, with times in UTC and the names of the columns"},
		{flag: "time-zone", variable: "TASKTABLE_TIME_ZONE", value: "zone", set: timeZone(&s.zone),
			usage: "the IANA zone of the times in tables, and of times that are given without one (default this machine's)"},
		{flag: "no-color", variable: "TASKTABLE_NO_COLOR", set: toggle(&s.noColor),
			usage: "no colors; there are none either where NO_COLOR is set, or where the output is no terminal"},
	}
}

// printer prints what a command has found: as tables for people, or as one JSON document for programs. Data goes to stdout; notes,
// which are not data, to stderr.
type printer struct {
	clock
	data   io.Writer
	notes  io.Writer
	json   bool
	colors bool
	width  int // of the terminal; 0: the output is none, and nothing is cut
}

func (s *printSettings) printer(ctx context.Context, p *program, now time.Time) printer {
	to := printer{clock: clock{now: now, zone: s.location()}, data: p.stdout, notes: p.stderr, json: s.format == asJSON}
	if to.json || !isTerminal(ctx, p.stdout) {
		return to
	}
	to.width = terminalWidth(ctx, p.stdout)
	to.colors = !s.noColor && p.environment.get("NO_COLOR") == "" && p.environment.get("TERM") != "dumb"
	return to
}

// clock is for what is checked before the database, and its time, are at hand.
func (s *printSettings) clock() clock { return clock{now: time.Now(), zone: s.location()} }

func (s *printSettings) location() *time.Location {
	if s.zone == nil {
		return time.Local
	}
	return s.zone
}

// list prints a slice of rows as a JSON array, or the table; of an empty one it says none, as a note, so that a script's
// stdout stays empty.
func (p *printer) list(rows any, t *table, none string) error {
	if p.json {
		if slice := reflect.ValueOf(rows); slice.IsNil() {
			rows = reflect.MakeSlice(slice.Type(), 0, 0).Interface() // null is no array
		}
		return p.document(rows)
	}
	if len(t.rows) == 0 {
		p.note("%s", none)
		return nil
	}
	return t.print(p.data, p.colors, p.width)
}

// one prints one thing as a JSON object, or the table: that of newFields, with a line for each field.
func (p *printer) one(thing any, t *table) error {
	if p.json {
		return p.document(thing)
	}
	return t.print(p.data, p.colors, p.width)
}

// note says what is no data.
func (p *printer) note(format string, args ...any) { fmt.Fprintf(p.notes, format+"\n", args...) }

func (p *printer) document(value any) error {
	encoder := json.NewEncoder(p.data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(inUTC(reflect.ValueOf(value)).Interface()); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// inUTC is a copy in which every time is in UTC. A driver gives them in the zone of this machine.
func inUTC(value reflect.Value) reflect.Value {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return value
		}
		copied := reflect.New(value.Type().Elem())
		copied.Elem().Set(inUTC(value.Elem()))
		return copied
	case reflect.Interface:
		if value.IsNil() {
			return value
		}
		return inUTC(value.Elem())
	case reflect.Struct:
		if at, ok := value.Interface().(time.Time); ok {
			return reflect.ValueOf(at.UTC())
		}
		copied := reflect.New(value.Type()).Elem()
		copied.Set(value)
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				copied.Field(i).Set(inUTC(value.Field(i)))
			}
		}
		return copied
	case reflect.Slice:
		if value.IsNil() || value.Type().Elem().Kind() == reflect.Uint8 {
			return value
		}
		copied := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
		for i := range value.Len() {
			copied.Index(i).Set(inUTC(value.Index(i)))
		}
		return copied
	}
	return value
}
