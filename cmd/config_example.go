package cmd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const exampleHead = `# Options of Tasktable: tasktable serve --config tasktable.yaml. Take the # away from what is to hold.
#
# A flag wins over the environment, the environment over this file, and this file over the default.
# "tasktable config --config tasktable.yaml" says whether it is right, and what is in force.
`

const exampleOthers = `
# Options of other commands.
`

// exampleFile is a file with all options as comments.
func exampleFile(served, settable []option) string {
	var file strings.Builder
	file.WriteString(exampleHead)
	write := func(o *option) {
		fmt.Fprintf(&file, "\n%s#%s\n", comment(o), strings.ReplaceAll(strings.TrimSpace(exampleOf(o)), "\n", "\n#"))
	}
	isServed := func(o option) bool {
		return slices.ContainsFunc(served, func(one option) bool { return one.key() == o.key() })
	}
	for _, o := range served {
		write(&o)
	}
	file.WriteString(exampleOthers)
	for _, o := range settable {
		if !isServed(o) {
			write(&o)
		}
	}
	return file.String()
}

// comment says what the option is, in lines that fit.
func comment(o *option) string {
	const width = 110
	var lines strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(o.help()) {
		if len(line)+1+len(word) > width {
			lines.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return lines.String() + line + "\n"
}

// samples are values of options without a default, by what the value is.
var samples = map[string]string{ //nolint:gosec // made up
	"url": "postgres://user:password@localhost:5432/database", "folder": "/var/lib/tasktable", "file": "query.sql", "name": "events",
	"scope": "type:SEND_EMAIL", "type=period": "LOG=24h", "number": "10", "duration": "10s", "host": "mail.example.org",
	"password": "secret", "mechanism": "PLAIN", "address": "events@example.org", "type": "SEND_EVENT_REMINDER", "service": "events-api",
	"zone": "Europe/Berlin",
}

// exampleOf is a line, or several, as YAML.
func exampleOf(o *option) string {
	text := cmp.Or(o.sample, o.fallback, samples[o.value])
	value := plainly(text)
	switch {
	case o.value == "":
		value = text == "true"
	case o.many && strings.Contains(o.value, "="):
		pairs := map[string]any{}
		for item := range strings.SplitSeq(text, ",") {
			name, one, _ := strings.Cut(item, "=")
			pairs[name] = plainly(one)
		}
		value = pairs
	case o.many:
		value = strings.Split(text, ",")
	}
	var encoded strings.Builder
	encoder := yaml.NewEncoder(&encoded)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]any{o.key(): value}); err != nil { // strings, numbers and maps of them always encode
		return err.Error()
	}
	return encoded.String()
}

// plainly has numbers written without quotes.
func plainly(text string) any {
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	return text
}
