package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// sql returns a statement for the reader to run, with the name of the schema.
func (e *examination) sql(statement string, args ...any) string {
	return e.schema.SQL(fmt.Sprintf(statement, args...)) + ";"
}

// command returns a command of this program, with the option for the schema if it needs one.
func (e *examination) command(command string) string {
	if e.schema.String() == store.DefaultSchema {
		return "tasktable " + command
	}
	return "tasktable " + command + " --schema " + e.schema.String()
}

// quoted returns a text as an SQL literal.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:+/-]+$`)

// word quotes a text so that a shell takes it for one word.
func word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// named returns a name as an SQL identifier.
func named(name string) string { return pgx.Identifier{name}.Sanitize() }

// several returns a count with its noun: "1 node", "2 nodes".
func several[N ~int | ~int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// seconds is short for a number of seconds.
func seconds(s float64) string { return short(time.Duration(s * float64(time.Second))) }

// short returns a duration, rounded to a useful precision.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		if d = d.Round(time.Second); d%time.Minute != 0 {
			return d.String()
		}
		return strings.TrimSuffix(d.String(), "0s") // of 1m0s, but not of 1m30s
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// bytes shows a size.
func bytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// instant shows a time of the database.
func instant(at time.Time) string { return at.UTC().Truncate(time.Second).Format(time.RFC3339) }

const lineMost = 240

// line returns a text of other people as one line, cut to lineMost characters.
func line(text string) string {
	breaks := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
	text = strings.Join(strings.FieldsFunc(text, breaks), " ")
	if runes := []rune(text); len(runes) > lineMost {
		return string(runes[:lineMost]) + "…"
	}
	return text
}

// sorted returns the keys of a map, sorted.
func sorted[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
