package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

const configHelp = "a file with options, in YAML: see config --example. Flags and the environment win over it"

// configOption is an option of every command.
func configOption(into *string) Option {
	return Option{Flag: configFlag, Variable: "TASKTABLE_CONFIG", Kind: "file", Set: Text(into, 4096),
		Usage: configHelp}
}

const configFlag = "config"

// configFile is the content of a configuration file.
type configFile struct {
	byKey map[string]resolved
}

// lookup looks the option up in the file.
func (f *configFile) lookup(o *Option) (resolved, error) {
	key := o.key()
	if f == nil || key == "" {
		return resolved{}, nil
	}
	found, path := f.byKey[key], f.byKey[key+keyOfFile]
	switch {
	case !o.Secret || path.text == "":
		return found, nil
	case found.text != "":
		return resolved{}, Usage("%s: both %s and %s are there: give one of them", path.place, key, key+keyOfFile)
	}
	return path.read(path.text)
}

const maxConfigBytes = 1 << 20

// readConfigFile reads a file. Each of its keys must be an option of some command.
func readConfigFile(path string, known map[string]Option) (*configFile, error) {
	content, err := ReadFile(path, maxConfigBytes)
	if about := new(os.PathError); errors.As(err, &about) {
		return nil, Usage("--%s (TASKTABLE_CONFIG): %w", configFlag, err)
	} else if err != nil {
		return nil, Usage("%s: %w", path, err)
	}
	root, err := parseYAML(content)
	if err != nil {
		return nil, Usage("%s: %w", path, err)
	}
	found := &configFile{byKey: map[string]resolved{}}
	if root == nil {
		return found, nil
	}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		errs = append(errs, found.add(path, root.Content[i], root.Content[i+1], known))
	}
	return found, errors.Join(errs...)
}

// quotation is a part of the file that the parser quotes. It may contain a password.
var quotation = regexp.MustCompile(`'[^']*'`)

// parseYAML returns the mapping in the file, or nil if the file is empty.
func parseYAML(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, more yaml.Node
	err := decoder.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(err)
	case !errors.Is(decoder.Decode(&more), io.EOF):
		return nil, errors.New("must be one YAML document")
	}
	root := document.Content[0]
	if isNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("must be lines of the form option: value")
	}
	return root, nil
}

// grammar matches the parser's errors that quote nothing of the file. In these errors the parser counts lines from 0,
// and leaves out line 0.
var grammar = regexp.MustCompile(`^(?:line (\d+): )?` +
	`(did not find expected (?:<[a-z -]+>|node content|key|'-' indicator|',' or '[\]}]'))$`)

func syntaxError(err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := grammar.FindStringSubmatch(message); found != nil {
		line, _ := strconv.Atoi(found[1])
		return fmt.Errorf("line %d: %s", line+1, found[2])
	}
	return errors.New(quotation.ReplaceAllString(message, "'…'"))
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

var keyLike = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// add takes one key of the file.
func (f *configFile) add(path string, key, value *yaml.Node, known map[string]Option) error {
	name, place := key.Value, fmt.Sprintf("%s:%d", path, key.Line)
	o, there := known[name]
	if !there {
		o, there = known[strings.TrimSuffix(name, keyOfFile)]
		there = there && o.Secret && strings.HasSuffix(name, keyOfFile)
		o.Repeatable = false
	}
	switch _, twice := f.byKey[name]; {
	case !there && !keyLike.MatchString(name): // not quoted, because it may be a URL with a password
		return Usage("%s: the text before the colon must be the name of an option", place)
	case !there:
		return Usage("%s: there is no option %q%s", place, name, DidYouMean("", term.Nearest(name, keysOf(known))))
	case twice:
		return Usage("%s: %s is there twice", place, name)
	}
	text, err := textOf(&o, value)
	if err != nil {
		if wrong := new(nodeError); errors.As(err, &wrong) {
			place = fmt.Sprintf("%s:%d", path, wrong.line)
		}
		return Usage("%s: %s %w", place, name, err)
	}
	f.byKey[name] = resolved{text: text, origin: FromFile, place: place, parts: partsOf(path, value)}
	return nil
}

// nodeError is a value that breaks a rule. It may stand some lines below its key.
type nodeError struct {
	error
	line int
}

// part is one item of a list or of a mapping, or a single value, with its place.
type part struct{ text, place string }

func partsOf(path string, value *yaml.Node) (parts []part) {
	nodes, each := []*yaml.Node{value}, 1
	switch value.Kind {
	case yaml.SequenceNode:
		nodes = value.Content
	case yaml.MappingNode:
		nodes, each = value.Content, 2
	}
	for i := 0; i+each <= len(nodes); i += each {
		if text, err := joined(nodes[i:i+each], each); err == nil {
			parts = append(parts, part{text, fmt.Sprintf("%s:%d", path, nodes[i+each-1].Line)})
		}
	}
	return parts
}

// textOf is the value as a flag would take it.
func textOf(o *Option, value *yaml.Node) (string, error) {
	switch {
	case isNull(value) && value.Anchor == "" && value.Style&yaml.TaggedStyle == 0:
		return "", nil
	case value.Kind == yaml.ScalarNode || value.Kind == yaml.AliasNode:
		return scalar(value)
	case !o.Repeatable:
		return "", errors.New("must be one value, without a list")
	case value.Kind == yaml.SequenceNode:
		return joined(value.Content, 1)
	case value.Kind == yaml.MappingNode && strings.Contains(o.Kind, "="):
		return joined(value.Content, 2)
	case strings.Contains(o.Kind, "="):
		return "", fmt.Errorf("must be %s, a list of these, or a mapping of the one to the other", o.Kind)
	}
	return "", fmt.Errorf("must be a %s or a list of these, with none that has a colon and a space in it", o.Kind)
}

// joined puts commas between the values, and an = into each pair.
func joined(nodes []*yaml.Node, each int) (string, error) {
	var items []string
	for i := 0; i < len(nodes); i += each {
		var words []string
		for _, node := range nodes[i : i+each] {
			word, err := scalar(node)
			if err != nil {
				return "", err
			}
			words = append(words, word)
		}
		items = append(items, strings.Join(words, "="))
	}
	return strings.Join(items, ","), nil
}

var errPlain = errors.New("must be a plain value; put quotes around one that begins with * & ! or has a colon and a " +
	"space in it")

// scalar is a single value as it is written. It refuses a value that begins with *, & or !, because that is more
// likely a part of a password without quotes than a feature of YAML.
func scalar(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode || node.Anchor != "" || node.Style&yaml.TaggedStyle != 0 {
		return "", &nodeError{errPlain, node.Line}
	}
	if isNull(node) {
		return "", nil
	}
	return node.Value, nil
}

func keysOf(known map[string]Option) (keys []string) {
	for key, o := range known {
		keys = append(keys, key)
		if o.Secret {
			keys = append(keys, key+keyOfFile)
		}
	}
	return keys
}
