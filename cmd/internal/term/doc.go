// Package term prints tables, times, colors and JSON. It also talks to a terminal, to ask questions, read single keys
// and restore the terminal's settings.
package term
