package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/statement"
)

// commandSettings say which commands EXEC can run, and which statements RUN_SQL. A node has neither type unless the
// file has some.
type commandSettings struct{ path string }

func (s *commandSettings) options() []options.Option {
	return []options.Option{{Flag: "commands", Variable: "TASKTABLE_COMMANDS", Kind: "file",
		Set: options.Text(&s.path, 4096),
		Usage: "a YAML file with the commands that tasks of type EXEC, and the statements that tasks of type RUN_SQL " +
			"may choose; without it this node has neither type. Keep it from being written by others"}}
}

// commandsFile is the content of the file.
type commandsFile struct {
	Commands   map[string]command.Command     `yaml:"commands"`
	Statements map[string]statement.Statement `yaml:"statements"`
}

// variants are the handlers of EXEC and RUN_SQL, as far as the file has commands and statements.
func (s *commandSettings) variants(logger *slog.Logger) (parts []handlers.Part, err error) {
	if s.path == "" {
		return nil, nil
	}
	file, err := readCommands(s.path)
	if err == nil {
		parts, err = file.variants()
	}
	if err != nil {
		return nil, options.Usage("--commands (TASKTABLE_COMMANDS): %s: %w", s.path, err)
	}
	warnOfGroups(append(file.paths(), s.path), logger)
	return parts, nil
}

// paths are the files that the commands name: programs and secrets.
func (f *commandsFile) paths() (paths []string) {
	for _, one := range f.Commands {
		paths = append(paths, one.Path)
		paths = slices.AppendSeq(paths, maps.Values(one.Secrets))
	}
	return paths
}

// warnOfGroups logs which files more users than the owner may write to. Each of these users can run programs as the
// node's user. It is only a warning, because some systems give each user a group. A file that everybody may write to
// was refused before.
func warnOfGroups(paths []string, logger *slog.Logger) {
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o020 != 0 && runtime.GOOS != "windows" { // where a mode says nothing
			logger.Warn("the group of a file of --commands may write to it, and so run programs as this node's user",
				"file", path, "mode", fmt.Sprintf("%#o", info.Mode().Perm()))
		}
	}
}

func (f *commandsFile) variants() (parts []handlers.Part, err error) {
	var errs []error
	if len(f.Commands) > 0 {
		part, err := command.Variant(command.Config{Commands: f.Commands})
		parts, errs = append(parts, part), append(errs, rules(err))
	}
	if len(f.Statements) > 0 {
		part, err := statement.Variant(statement.Config{Statements: f.Statements})
		parts, errs = append(parts, part), append(errs, rules(err))
	}
	if len(parts) == 0 {
		return nil, errors.New("has neither commands nor statements")
	}
	return parts, errors.Join(errs...)
}

// rules is the error of a Config without the Config's name. The fields in it have the names of the file.
func rules(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()[1]
	}
	return err
}

const maxCommandsBytes = 1 << 20

// readCommands reads the file. A key that it cannot have is an error.
func readCommands(path string) (*commandsFile, error) {
	content, err := options.ReadFile(path, maxCommandsBytes)
	if about := new(os.PathError); errors.As(err, &about) {
		return nil, about.Err
	} else if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	file := &commandsFile{}
	if err := decoder.Decode(file); err != nil && !errors.Is(err, io.EOF) {
		return nil, inPlainWords(err)
	}
	return file, nil
}

var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongKind    = regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `(?s:.*?)`)? into (\\S+)")
)

// kindNames are the kinds of YAML, and of the fields.
var kindNames = strings.NewReplacer("seq", "a list", "map", "a mapping", "str", "a text", "int", "a number",
	"[]string", "a list of texts", "[]int", "a list of exit codes", "map[string]string", "a mapping of names to texts",
	"string", "a text", "time.Duration", "a duration such as 30s", "bool", "true or false")

// inPlainWords is an error of the parser without names of Go, and without values of the file, which may be secret.
func inPlainWords(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
	text = unknownField.ReplaceAllString(text, "there is no field $1")
	text = wrongKind.ReplaceAllStringFunc(text, func(found string) string {
		parts := wrongKind.FindStringSubmatch(found)
		if to := kindNames.Replace(parts[2]); to != parts[2] {
			return "must be " + to + ", and not " + kindNames.Replace(parts[1])
		}
		return "must not be " + kindNames.Replace(parts[1])
	})
	return errors.New(text)
}
