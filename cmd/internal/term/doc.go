// Package term prints for people and for programs: tables, times, colors and JSON. It also talks to a terminal: it asks
// questions, reads single keys and restores the terminal's settings.
package term
