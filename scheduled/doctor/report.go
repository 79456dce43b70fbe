package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Level of a finding.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Info    Level = "info"    // worth knowing, but nothing needs to be done
	Warning Level = "warning" // works, but not as it should, or not for long
	Error   Level = "error"   // something does not work, or a promise does not hold
)

var levels = []Level{OK, Info, Warning, Error}

// Finding is one thing that a check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`        // with figures
	Do    string `json:"do,omitempty"` // the remedy: a command, a statement or a setting; "": none is needed
}

// Report holds the findings of an examination, in the order of the checks.
type Report struct {
	Database string    `json:"database"` // host:port/name
	Reached  bool      `json:"reached"`  // false: no connection was possible, and that is the only finding
	Schema   string    `json:"schema"`
	Role     string    `json:"role"`
	At       time.Time `json:"at"` // by this machine's clock
	Findings []Finding `json:"findings"`
}

// Count returns the number of findings of a level.
func (r Report) Count(level Level) int {
	count := 0
	for _, finding := range r.Findings {
		if finding.Level == level {
			count++
		}
	}
	return count
}

// Worst returns the level of the worst finding, and OK if there is none.
func (r Report) Worst() Level {
	worst := OK
	for _, finding := range r.Findings {
		if cmp.Compare(slices.Index(levels, finding.Level), slices.Index(levels, worst)) > 0 {
			worst = finding.Level
		}
	}
	return worst
}

// ok adds a finding about something that is well.
func (e *examination) ok(format string, args ...any) { e.find(OK, "", format, args...) }

func (e *examination) info(do, format string, args ...any) { e.find(Info, do, format, args...) }
func (e *examination) warn(do, format string, args ...any) { e.find(Warning, do, format, args...) }
func (e *examination) fail(do, format string, args ...any) { e.find(Error, do, format, args...) }

// find adds a finding of the running check.
func (e *examination) find(level Level, do, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, Finding{
		Check: e.check,
		Level: level,
		Found: fmt.Sprintf(format, args...),
		Do:    do,
	})
}
