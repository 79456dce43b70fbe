package cmd

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
)

const configHelp = "a file with options, in YAML: see config --example. Flags and the environment win over it"

// configOption is every command's.
func configOption(into *string) option {
	return option{flag: configFlag, variable: "TASKTABLE_CONFIG", value: "file", set: text(into, 4096), usage: configHelp}
}

const configFlag = "config"

// key is the option's name in the file: the flag's; of an option of one command alone with that command's name before it, so that one
// file serves all commands. "": it cannot be there.
func (o *option) key() string {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(o.variable, variablePrefix), "_", "-"))
	switch {
	case o.variable == "" || o.flag == configFlag:
		return ""
	case strings.HasSuffix(name, "-"+o.flag):
		return name
	}
	return o.flag
}

// configFile is what a file says, by key.
type configFile struct {
	said map[string]setting
}

// setting is what the file says of an option.
func (f *configFile) setting(o *option) (setting, error) {
	key := o.key()
	if f == nil || key == "" {
		return setting{}, nil
	}
	said, path := f.said[key], f.said[key+keyOfFile]
	switch {
	case !o.secret || path.text == "":
		return said, nil
	case said.text != "":
		return setting{}, usage("%s: both %s and %s are there: give one of them", path.place, key, key+keyOfFile)
	}
	return path.read(path.text)
}

const configBytes = 1 << 20

// readConfigFile reads a file. What it says must be of options that some command has.
func readConfigFile(path string, known map[string]option) (*configFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usage("--%s (TASKTABLE_CONFIG): %w", configFlag, err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, configBytes+1))
	if err != nil {
		return nil, usage("--%s (TASKTABLE_CONFIG): %w", configFlag, err)
	}
	if len(content) > configBytes {
		return nil, usage("%s: has more than %d bytes", path, configBytes)
	}
	root, err := parseYAML(content)
	if err != nil {
		return nil, usage("%s: %w", path, err)
	}
	found := &configFile{said: map[string]setting{}}
	if root == nil {
		return found, nil
	}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		errs = append(errs, found.add(path, root.Content[i], root.Content[i+1], known))
	}
	return found, errors.Join(errs...)
}

// quotation is what the parser quotes of the file: it may be a part of a password.
var quotation = regexp.MustCompile(`'[^']*'`)

// parseYAML returns the mapping that the file is; nil if there is nothing in it.
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

// grammar are the parser's errors that quote nothing of the file. Of these it counts the lines from 0, and leaves that out.
var grammar = regexp.MustCompile(`^(?:line (\d+): )?(did not find expected (?:<[a-z -]+>|node content|key|'-' indicator|',' or '[\]}]'))$`)

func syntaxError(err error) error {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := grammar.FindStringSubmatch(said); found != nil {
		line, _ := strconv.Atoi(found[1])
		return fmt.Errorf("line %d: %s", line+1, found[2])
	}
	return errors.New(quotation.ReplaceAllString(said, "'…'"))
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

var keyLike = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// add takes one line of the file.
func (f *configFile) add(path string, key, value *yaml.Node, known map[string]option) error {
	name, place := key.Value, fmt.Sprintf("%s:%d", path, key.Line)
	o, there := known[name]
	if !there {
		o, there = known[strings.TrimSuffix(name, keyOfFile)]
		there = there && o.secret && strings.HasSuffix(name, keyOfFile)
		o.many = false
	}
	switch _, twice := f.said[name]; {
	case !there && !keyLike.MatchString(name): // it may be a URL with a password
		return usage("%s: what stands before the colon must be the name of an option", place)
	case !there:
		return usage("%s: there is no option %q%s", place, name, didYouMean("", nearest(name, keysOf(known))))
	case twice:
		return usage("%s: %s is there twice", place, name)
	}
	text, err := textOf(&o, value)
	if err != nil {
		if wrong := new(nodeError); errors.As(err, &wrong) {
			place = fmt.Sprintf("%s:%d", path, wrong.line)
		}
		return usage("%s: %s %w", place, name, err)
	}
	f.said[name] = setting{text: text, origin: fromFile, place: place, parts: partsOf(path, value)}
	return nil
}

// nodeError is what is wrong with a value, which may be some lines below its key.
type nodeError struct {
	error
	line int
}

// part is one item of a list or a mapping, or the value on a line of its own, and where it stands.
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

// textOf is a value as a flag would say it.
func textOf(o *option, value *yaml.Node) (string, error) {
	switch {
	case isNull(value) && value.Anchor == "" && value.Style&yaml.TaggedStyle == 0:
		return "", nil
	case value.Kind == yaml.ScalarNode || value.Kind == yaml.AliasNode:
		return scalar(value)
	case !o.many:
		return "", errors.New("must be one value, without a list")
	case value.Kind == yaml.SequenceNode:
		return joined(value.Content, 1)
	case value.Kind == yaml.MappingNode && strings.Contains(o.value, "="):
		return joined(value.Content, 2)
	case strings.Contains(o.value, "="):
		return "", fmt.Errorf("must be %s, a list of these, or a mapping of the one to the other", o.value)
	}
	return "", fmt.Errorf("must be a %s or a list of these, with none that has a colon and a space in it", o.value)
}

// joined puts commas between values, and = within pairs.
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

// scalar is a single value as it is written. What YAML would make of a *, & or ! before it is refused: more likely it is a part of a
// password that wants quotes.
func scalar(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode || node.Anchor != "" || node.Style&yaml.TaggedStyle != 0 {
		return "", &nodeError{errors.New("must be a plain value; put quotes around one that begins with * & ! or has a colon and a space in it"), node.Line}
	}
	if isNull(node) {
		return "", nil
	}
	return node.Value, nil
}

func keysOf(known map[string]option) (keys []string) {
	for key, o := range known {
		keys = append(keys, key)
		if o.secret {
			keys = append(keys, key+keyOfFile)
		}
	}
	return keys
}
