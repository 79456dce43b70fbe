// Package term prints tables, times, colors and JSON. It also talks to a terminal, to ask questions, read single keys
// and restore the terminal's settings.
package term

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"
	"unicode"
	"unicode/utf16"
)

// Printer prints the result of a command, as tables for people or as one JSON document for programs. Notes, which are
// not data, go to Notes.
type Printer struct {
	Clock
	Data   io.Writer
	Notes  io.Writer
	JSON   bool
	Colors bool
	Width  int // of the terminal; 0: the output is none, and nothing is cut
}

// NewPrinter returns a printer to data. If that is a terminal, tables are as wide as the terminal, and colored if
// colors is set.
func NewPrinter(ctx context.Context, data, notes io.Writer, clock Clock, json, colors bool) Printer {
	p := Printer{Clock: clock, Data: data, Notes: notes, JSON: json}
	if json || !IsTerminal(ctx, data) {
		return p
	}
	p.Width, p.Colors = Width(ctx, data), colors
	return p
}

// List prints a slice of rows as a JSON array or as the table. If there are none, it prints the sentence none as a
// note, so that a script's stdout stays empty.
func (p *Printer) List(rows any, t *Table, none string) error {
	if p.JSON {
		if slice := reflect.ValueOf(rows); slice.IsNil() {
			rows = reflect.MakeSlice(slice.Type(), 0, 0).Interface() // null is no array
		}
		return p.Document(rows)
	}
	if t.IsEmpty() {
		p.Note("%s", none)
		return nil
	}
	return t.Print(p.Data, p.Colors, p.Width)
}

// One prints one thing as a JSON object, or as a table that NewFields has made.
func (p *Printer) One(thing any, t *Table) error {
	if p.JSON {
		return p.Document(thing)
	}
	return t.Print(p.Data, p.Colors, p.Width)
}

// Note prints a line that is not data.
func (p *Printer) Note(format string, args ...any) { fmt.Fprintf(p.Notes, format+"\n", args...) }

// Document prints a JSON document.
func (p *Printer) Document(value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(inUTC(reflect.ValueOf(value)).Interface()); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	if _, err := p.Data.Write(escapeInvisible(text.Bytes())); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// escapeInvisible writes the characters of a JSON document that could command a terminal as escapes. JSON itself
// escapes those below U+0020. U+007F to U+009F hold the second set of control characters, and the class Cf those that
// turn the direction of text.
func escapeInvisible(document []byte) []byte {
	commands := func(r rune) bool { return r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Cf, r) }
	if !bytes.ContainsFunc(document, commands) {
		return document
	}
	var text bytes.Buffer
	for _, r := range string(document) {
		if !commands(r) {
			text.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&text, `\u%04x`, unit)
		}
	}
	return text.Bytes()
}

// inUTC returns a copy with all times in UTC. A driver returns them in the zone of this machine.
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
