package notice

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/handlers/notice/rules"
)

const (
	// maxListed is how many causes a message lists. It gives the number of the others.
	maxListed = 10
	// maxTypes is how many types a message counts.
	maxTypes = 10
	// maxDetail is how many characters of an error, and how many bytes of an id before it, a message has.
	maxDetail = 200
)

// maxTitleID is how many bytes of a task's id a title has.
const maxTitleID = 80

// message is the content of a notice, before it takes the form of a channel.
type message struct {
	ID        string // of the notice
	Rule      string
	Recipient string
	// Environment is the name of the environment, or "".
	Environment string
	// Dashboard is the address of the dashboard without a slash at its end, or "".
	Dashboard string
	Test      bool
	From, To  time.Time // of the first and of the last cause
	Total     int64
	Counts    []count // by event and type, the largest first
	Listed    []cause // the first, by time
}

type count struct {
	Event rules.Event `json:"event"`
	Type  string      `json:"type"`
	Count int64       `json:"count"`
}

type cause struct {
	Event  rules.Event `json:"event"`
	TaskID string      `json:"task_id"`
	Type   string      `json:"type"`
	At     time.Time   `json:"at"`
	Detail string      `json:"detail,omitempty"`
	URL    string      `json:"url,omitempty"` // of the task's page in the dashboard
}

// title is one line of ASCII, because it becomes a subject and a header.
func (m message) title() string {
	from := "Tasktable: "
	if m.Environment != "" {
		from = "Tasktable " + m.Environment + ": "
	}
	if m.Test || len(m.Listed) == 0 {
		return from + m.summary()
	}
	first := m.Listed[0]
	title := from + titleID(first.TaskID) + " " + words[first.Event]
	if m.Total > 1 {
		title += fmt.Sprintf(", and %d more", m.Total-1)
	}
	if sums := m.summary(); strings.Contains(sums, ", ") {
		title += " (" + sums + ")"
	}
	return title
}

// titleID is an id as a title can have it: ASCII, and not too long.
func titleID(id string) string {
	id = strings.Map(func(r rune) rune {
		if r > '~' {
			return '?'
		}
		return r
	}, oneLine(id))
	if len(id) > maxTitleID {
		id = id[:maxTitleID-3] + "..."
	}
	return id
}

// taskURL is the address of a task's page, or "" without a dashboard. All but letters, digits and -_ are escaped, so
// that no service takes a part of the id for markup. A browser would take the ids . and .. for parts of the path.
func (m message) taskURL(id string) string {
	if m.Dashboard == "" || strings.Trim(id, ".") == "" || id == "/" {
		return ""
	}
	var escaped strings.Builder
	for _, c := range []byte(id) {
		if c >= utf8.RuneSelf || c != '-' && c != '_' && !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c)) {
			fmt.Fprintf(&escaped, "%%%02X", c)
			continue
		}
		escaped.WriteByte(c)
	}
	return m.Dashboard + "/tasks/" + escaped.String()
}

// isLink reports whether a line of the text is the address of a task's page. Such a line is not escaped.
func (m message) isLink(line string) bool {
	return m.Dashboard != "" && strings.HasPrefix(line, m.Dashboard+"/tasks/")
}

// words say what happened to so many tasks.
var words = map[rules.Event]string{
	rules.Failed: "failed", rules.Expired: "expired", rules.Lost: "lost an attempt", rules.Late: "late",
	rules.Missed: "missed fires", rules.Unsuccessful: "without success", rules.Recovered: "recovered",
}

// summary is such as "9990 failed, 10 lost an attempt".
func (m message) summary() string {
	if m.Test {
		return "a test of notices"
	}
	sums := map[rules.Event]int64{}
	for _, one := range m.Counts {
		sums[one.Event] += one.Count
	}
	var parts []string
	for _, event := range rules.Events() {
		if sums[event] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", sums[event], words[event]))
		}
	}
	return strings.Join(parts, ", ")
}

// lines are the text without the title. No line has a control character.
func (m message) lines() []string {
	if m.Test {
		return []string{"Notices reach " + m.Recipient + "."}
	}
	const layout = "2006-01-02 15:04:05 MST"
	period := "At " + m.From.UTC().Format(layout)
	if m.To.Sub(m.From) >= time.Second {
		period = fmt.Sprintf("From %s to %s", m.From.UTC().Format(layout), m.To.UTC().Format(layout))
	}
	lines := []string{fmt.Sprintf("%s: %s.", period, m.summary())}
	if len(m.Counts) > 1 {
		var counts []string
		for _, one := range m.Counts[:min(len(m.Counts), maxTypes)] {
			counts = append(counts, fmt.Sprintf("%d %s %s", one.Count, one.Type, words[one.Event]))
		}
		if left := len(m.Counts) - len(counts); left > 0 {
			counts = append(counts, fmt.Sprintf("and %d more kinds", left))
		}
		lines = append(lines, oneLine("By type: "+strings.Join(counts, ", ")+"."))
	}
	for _, one := range m.Listed {
		id := one.TaskID
		if len(id) > maxDetail {
			id = strings.ToValidUTF8(id[:maxDetail], "") + "…"
		}
		line := fmt.Sprintf("%s %s (%s) %s", one.At.UTC().Format("15:04:05"), id, one.Type, words[one.Event])
		if one.Detail != "" {
			line += ": " + one.Detail
		}
		found := one.URL
		if found == "" {
			found = "tasktable why " + quoted(oneLine(one.TaskID))
		}
		lines = append(lines, "", oneLine(line), found)
	}
	if left := m.Total - int64(len(m.Listed)); left > 0 {
		lines = append(lines, "", fmt.Sprintf("And %d more.", left))
	}
	lines = append(lines, "", "Rule: "+m.Rule)
	if m.Environment != "" {
		lines = append(lines, "Environment: "+m.Environment)
	}
	return lines
}

func (m message) text() string { return strings.Join(m.lines(), "\n") }

// oneLine replaces control characters and invisible ones, such as those that turn the direction of text.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)), " ")
}

// quoted makes one word of a shell of a task's id. Otherwise a person who copies the line could run a command that the
// id contains.
func quoted(id string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:@+,=", r))
	}
	if id != "" && !strings.HasPrefix(id, "-") && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return id
	}
	text := "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	if strings.HasPrefix(id, "-") {
		return "-- " + text
	}
	return text
}

// shortened returns a text of at most `most` units, and says so if it leaves something out. size is the number of units
// that a rune takes.
func shortened(text string, most int, size func(rune) int) string {
	const mark = "\n… (shortened)"
	measure := func(text string) (sum int) {
		for _, r := range text {
			sum += size(r)
		}
		return sum
	}
	if measure(text) <= most {
		return text
	}
	room := most - measure(mark)
	for i, r := range text {
		if room -= size(r); room < 0 {
			return text[:i] + mark
		}
	}
	return text
}
