package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// sources are where options are said. The first that says one wins: flag, environment, file; else the default holds.
type sources struct {
	flags       *pflag.FlagSet
	environment environment
	file        *configFile // nil: none
}

// sources are those of a command whose flags have been parsed.
func (p *program) sources(flags *pflag.FlagSet) (sources, error) {
	from := sources{flags: flags, environment: p.environment}
	var path string
	if err := resolve([]option{configOption(&path)}, from); err != nil || path == "" {
		return from, err
	}
	known := map[string]option{}
	for _, o := range p.settable {
		known[o.key()] = o
	}
	var err error
	from.file, err = readConfigFile(path, known)
	return from, err
}

// origin is which of the sources it was.
type origin string

const (
	fromFlag        origin = "flag"
	fromEnvironment origin = "environment"
	fromFile        origin = "file"
	fromDefault     origin = "default"
)

// setting is what holds of an option, and who said so.
type setting struct {
	text   string // "": nobody says anything, and there is no default to write
	origin origin
	place  string // the variable, or the file and its line
	parts  []part // what a file says, item by item
}

// setting is what holds of an option. An empty one counts as not given; an empty flag hides what the others say, so that
// `--database-url=` chooses the default against the environment.
func (o *option) setting(from sources) (setting, error) {
	unsaid := setting{text: o.fallback, origin: fromDefault}
	if flag := from.flags.Lookup(o.flag); flag != nil && flag.Changed {
		if given := flag.Value.(*rawValue).joined(); given != "" {
			return setting{text: given, origin: fromFlag, place: "--" + o.flag}, nil
		}
		return unsaid, nil
	}
	for _, said := range []func(*option) (setting, error){from.environment.setting, from.file.setting} {
		if found, err := said(o); err != nil || found.text != "" {
			return found, err
		}
	}
	return unsaid, nil
}

// A secret may be in a file of its own, which the variable, or the key, with this at its end names.
const (
	variableOfFile = "_FILE"
	keyOfFile      = "-file"
)

// setting is what the environment says of an option.
func (e environment) setting(o *option) (setting, error) {
	said := setting{text: e.get(o.variable), origin: fromEnvironment, place: o.variable}
	if !o.secret || o.variable == "" {
		return said, nil
	}
	path := e.get(o.variable + variableOfFile)
	if path == "" {
		return said, nil
	}
	if said.text != "" {
		return setting{}, usage("--%s: both %s and %s are set: give one of them", o.flag, o.variable, o.variable+variableOfFile)
	}
	said.place += variableOfFile
	return said.read(path)
}

// secretBytes is more than any password or URL has.
const secretBytes = 64 << 10

// read takes the text from a file, as Docker and Kubernetes mount secrets. Ends of lines at its end do not count: editors add them.
func (s setting) read(path string) (setting, error) {
	file, err := os.Open(path)
	if err != nil {
		return setting{}, usage("%s: %w", s.place, err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, secretBytes+1))
	if err != nil {
		return setting{}, usage("%s: %w", s.place, err)
	}
	s.text = strings.TrimRight(string(content), "\r\n")
	switch {
	case s.text == "":
		return setting{}, usage("%s: the file %s is empty", s.place, path)
	case len(content) > secretBytes:
		return setting{}, usage("%s: the file %s has more than %d bytes", s.place, path, secretBytes)
	}
	return s, nil
}

// resolve sets all options and names all that are wrong, not just the first.
func resolve(options []option, from sources) error {
	var errs []error
	for _, o := range options {
		said, err := o.setting(from)
		if err == nil && said.text != "" {
			if err = o.set(said.text); err != nil {
				err = o.wrong(err, said)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// wrongPlace is where the item of a file stands that is wrong by itself; else where its key does.
func (o *option) wrongPlace(said setting) string {
	for _, part := range said.parts {
		if part.text != "" && o.set(part.text) != nil {
			return part.place
		}
	}
	return said.place
}

func (o *option) wrong(rule error, said setting) error {
	name := o.name()
	if said.origin == fromFile {
		name = fmt.Sprintf("%s: %s", o.wrongPlace(said), o.key())
	}
	if o.hides(said.text) {
		return usage("%s %w", name, rule)
	}
	return usage("%s %w, got %q", name, rule, said.text)
}
