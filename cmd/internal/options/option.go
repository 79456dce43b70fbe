package options

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Option is one option of the program. A flag and an environment variable can give it, and the flag wins. Its value is
// text until the command runs, so that both go through the same check and the same message.
type Option struct {
	Flag        string // without the dashes
	Short       string // a letter that may replace the flag
	Variable    string // "": only the command line can give it
	Usage       string
	Kind        string // the kind of value, for the help: "duration"; "": on or off
	Default     string // the default, as a user would write it
	DefaultText string // replaces fallback in the output of config, for a default that differs from machine to machine
	Repeatable  bool   // may be given several times
	Secret      bool   // its value is never printed
	NotEmpty    bool   // Set also gets an empty flag, and refuses it; otherwise an empty flag means the default
	Set         func(text string) error
	Complete    Completion // for the shell; nil: nothing, or file names where value is a file or a folder
}

func (o *Option) name() string {
	if o.Variable == "" {
		return "--" + o.Flag
	}
	return fmt.Sprintf("--%s (%s)", o.Flag, o.Variable)
}

func (o *Option) help() string {
	help := o.Usage
	if o.Default != "" {
		help += " (default " + o.Default + ")"
	}
	if o.Secret && o.Variable != "" {
		help += "; $" + o.Variable + variableOfFile + " names a file with it"
	}
	if o.Variable != "" {
		help += " [$" + o.Variable + "]"
	}
	return help
}

// key is the option's name in the output of the command config. It is the flag's name. An option of one command has
// that command's name before it, because another command may have a flag of that name.
func (o *Option) key() string {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(o.Variable, variablePrefix), "_", "-"))
	if strings.HasSuffix(name, "-"+o.Flag) {
		return name
	}
	return o.Flag
}

// credentials are a name and a password as URLs write them. A user may give them where an option asks only for a host.
var credentials = regexp.MustCompile(`[^\s/]:[^\s/]*@`)

// isSecret reports whether the text must not be printed.
func (o *Option) isSecret(text string) bool { return o.Secret || credentials.MatchString(text) }

const redacted = "xxxxx"

// redact returns the value without its secrets, as it may be printed.
func (o *Option) redact(text string) string {
	switch {
	case text == "" && o.Kind == "":
		return "false"
	case text == "":
		return ""
	case o.Secret && o.Kind == "url":
		return redactURL(text)
	case o.isSecret(text):
		return redacted
	}
	return text
}

// redactURL builds the URL anew from the parts that are no secrets, because its parameters may contain passwords, too.
func redactURL(text string) string {
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return redacted
	}
	user := config.User
	if config.Password != "" {
		user += ":" + redacted
	}
	hosts := []string{fmt.Sprintf("%s:%d", config.Host, config.Port)}
	for _, other := range config.Fallbacks {
		if host := fmt.Sprintf("%s:%d", other.Host, other.Port); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return "postgres://" + user + "@" + strings.Join(hosts, ",") + "/" + config.Database
}

// row is the option as the command config prints it.
func (o *Option) row(found resolved) Setting {
	row := Setting{
		Option: o.key(), Value: cmp.Or(o.redact(found.text), o.DefaultText),
		From: found.origin, Place: found.place,
	}
	if found.origin == FromFlag {
		row.Place = "" // it would repeat the option's name
	}
	return row
}
