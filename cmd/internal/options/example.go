package options

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const exampleHead = `# Options of Tasktable: tasktable serve --config tasktable.yaml.
# Remove the # from the lines that should hold.
#
# A flag wins over the environment, the environment over this file, and this file over the default.
# "tasktable config --config tasktable.yaml" checks this file, and prints the options in force.
`

const exampleOthers = `
# Options of other commands.
`

// Example is a configuration file with all options as comments. The given options come first, and those of other
// commands follow.
func (c *Catalog) Example(first []Option) string {
	var file strings.Builder
	file.WriteString(exampleHead)
	write := func(o *Option) {
		lines := strings.ReplaceAll(strings.TrimSpace(exampleOf(o)), "\n", "\n#")
		fmt.Fprintf(&file, "\n%s#%s\n", comment(o), lines)
	}
	keys := map[string]bool{}
	for _, o := range first {
		keys[o.key()] = true
		write(&o)
	}
	file.WriteString(exampleOthers)
	for _, o := range c.fileOptions {
		if !keys[o.key()] {
			write(&o)
		}
	}
	return file.String()
}

// comment is the option's help, in lines that fit.
func comment(o *Option) string {
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

// samples are values of options without a default, by the kind of value.
var samples = map[string]string{ //nolint:gosec // made up
	"url": "postgres://user:password@localhost:5432/database", "folder": "/var/lib/tasktable", "file": "query.sql",
	"name":  "events",
	"scope": "type:SEND_EMAIL", "type=period": "LOG=24h", "number": "10", "duration": "10s", "host": "mail.example.org",
	"password": "secret", "mechanism": "PLAIN", "address": "events@example.org", "type": "SEND_EVENT_REMINDER",
	"service": "events-api",
	"zone":    "Europe/Berlin",
}

// exampleOf is a line, or several, as YAML.
func exampleOf(o *Option) string {
	text := cmp.Or(o.Sample, o.Default, samples[o.Kind])
	value := plainly(text)
	switch {
	case o.Kind == "":
		value = text == "true"
	case o.Repeatable && strings.Contains(o.Kind, "="):
		pairs := map[string]any{}
		for item := range strings.SplitSeq(text, ",") {
			name, one, _ := strings.Cut(item, "=")
			pairs[name] = plainly(one)
		}
		value = pairs
	case o.Repeatable:
		value = strings.Split(text, ",")
	}
	var encoded strings.Builder
	encoder := yaml.NewEncoder(&encoded)
	encoder.SetIndent(2)
	// strings, numbers and maps of them always encode
	if err := encoder.Encode(map[string]any{o.key(): value}); err != nil {
		return err.Error()
	}
	return encoded.String()
}

// plainly makes YAML write numbers without quotes.
func plainly(text string) any {
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	return text
}
