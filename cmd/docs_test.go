package cmd

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What the documents show is run: each block of a Markdown page, each block of code in a package's comment, and each
// example of a command's help. A block is told by its language: sh (docs_sh_test.go, where the commands are listed),
// sql (docs_sql_test.go), go (docs_go_test.go), promql (scheduled/monitoring/rulestest). Another is for the eye alone,
// and must be listed here.
var unrunLanguages = map[string]string{
	"":       "drawings, and what a program prints",
	"text":   "the same",
	"json":   "what an address answers; and a body for the HTTP API, which scheduled/api sends",
	"ts":     "a client of the HTTP API, which scheduled/api/clients runs",
	"python": "a receiver, which handlers/webhook/receivers_test.go runs; and a client, which scheduled/api/clients runs",
}

// block is a piece of a document that readers are meant to copy.
type block struct {
	where    string // file and line, or command
	language string
	text     string
}

// repository is the top of the source tree.
var repository = func() string {
	path, err := filepath.Abs("..")
	if err != nil {
		panic(err)
	}
	return path
}()

var (
	fence     = regexp.MustCompile("(?m)^([ \t]*)```([^\n`]*)\n((?s:.*?))^[ \t]*```$")
	fenceMark = regexp.MustCompile("(?m)^[ \t]*```")
)

// markdownBlocks are the fenced blocks of all pages.
func markdownBlocks(t *testing.T) (blocks []block) {
	t.Helper()
	for _, path := range sourceFiles(t, ".md") {
		text := readFile(t, path)
		for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
			blocks = append(blocks, block{
				where: lineOf(path, text, at[0]), language: strings.TrimSpace(text[at[4]:at[5]]),
				// of a list: indented
				text: strings.ReplaceAll("\n"+text[at[6]:at[7]], "\n"+text[at[2]:at[3]], "\n")[1:],
			})
		}
		if len(fenceMark.FindAllString(text, -1))%2 != 0 {
			t.Errorf("%s: a block does not end", path)
		}
	}
	return blocks
}

// packageBlocks are the blocks of code in the comments of packages.
func packageBlocks(t *testing.T) (blocks []block) {
	t.Helper()
	for _, path := range sourceFiles(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(repository, path), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc == nil {
			continue
		}
		for _, code := range indented(file.Doc.Text()) {
			blocks = append(blocks, block{where: path, language: languageOf(code), text: code})
		}
	}
	return blocks
}

// indented are the blocks of code in a comment.
func indented(comment string) (blocks []string) {
	var code []string
	for line := range strings.Lines(comment + "\nend") {
		switch rest, indented := strings.CutPrefix(line, "\t"); {
		case indented:
			code = append(code, rest)
		case strings.TrimSpace(line) == "" && len(code) > 0:
			code = append(code, "\n")
		case len(code) > 0:
			blocks = append(blocks, strings.TrimRight(strings.Join(code, ""), "\n")+"\n")
			code = nil
		}
	}
	return blocks
}

var (
	looksLikeSQL   = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER)\s`)
	looksLikeShell = regexp.MustCompile(`^(tasktable|make|go|psql|[A-Z_]+=\S+) `)
	looksLikeTable = regexp.MustCompile(`^[A-Za-z ()]+  +\S`)
)

// languageOf tells what a package's comment does not say.
func languageOf(code string) string {
	switch {
	case looksLikeSQL.MatchString(code):
		return "sql"
	case looksLikeShell.MatchString(code):
		return "sh"
	case looksLikeTable.MatchString(code):
		return "text"
	}
	return "go"
}

// helpBlocks are the examples of the commands' help.
func helpBlocks() (blocks []block) {
	newProgram(nil, io.Discard, io.Discard).eachCommand(func(command *cobra.Command) {
		if command.Example != "" {
			blocks = append(blocks, block{where: command.CommandPath() + " --help", language: "sh",
				text: command.Example + "\n"})
		}
	})
	return blocks
}

// allBlocks are the blocks of a language.
func allBlocks(t *testing.T, language string) []block {
	t.Helper()
	blocks := slices.Concat(markdownBlocks(t), packageBlocks(t), helpBlocks())
	return slices.DeleteFunc(blocks, func(b block) bool { return b.language != language })
}

// sourceFiles are the files of a kind in the source tree, by their paths from its top; not those in folders that
// begin with a dot, nor test data.
func sourceFiles(t *testing.T, ending string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != repository &&
			(strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, ending) {
			relative, err := filepath.Rel(repository, path)
			paths = append(paths, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestEveryBlockIsOfAKnownLanguage(t *testing.T) {
	run := []string{"sh", "sql", "go", "promql", "yaml", "ini"}
	found := map[string]int{}
	for _, b := range slices.Concat(markdownBlocks(t), packageBlocks(t), helpBlocks()) {
		found[b.language]++
		if _, forTheEye := unrunLanguages[b.language]; !forTheEye && !slices.Contains(run, b.language) {
			t.Errorf("%s: a block of %q is run by no test: run it, or add it to unrunLanguages", b.where, b.language)
		}
	}
	for language, least := range map[string]int{"sh": 30, "sql": 15, "go": 15, "promql": 1} {
		if found[language] < least {
			t.Errorf("only %d blocks of %s were found", found[language], language)
		}
	}
}

// inlineCommand is a command in the midst of a sentence.
var inlineCommand = regexp.MustCompile("`((?:tasktable|make|go run \\.|go test) [^`…]+)`")

// A block of ini is a file of variables, or a unit. A block of yaml is what service_test.go, commands_test.go or docs_sql_test.go reads. The first of
// these reads the unit, too.
func TestOptionFileBlocks(t *testing.T) {
	files := 0
	for _, b := range slices.Concat(allBlocks(t, "yaml"), allBlocks(t, "ini")) {
		if strings.Contains(b.text, "kind: Deployment") || strings.Contains(b.text, "kind: ScaledObject") ||
			strings.Contains(b.text, "kind: Job") ||
			strings.Contains(b.text, "[Unit]") || isCommandsFile.MatchString(b.text) {
			continue
		}
		files++
		var variables []string
		for line := range strings.Lines(secretFile.ReplaceAllString(b.text, "")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				variables = append(variables, line)
			}
		}
		if got := run(t, variables, "config"); got.code != exitOK || got.stderr != "" {
			t.Errorf("%s: exit code %d: %s\n%s", b.where, got.code, got.stderr, b.text)
		}
	}
	if files == 0 {
		t.Error("there is no file of variables")
	}
}

// secretFile is a variable that names a file which readers have, and tests do not.
var secretFile = regexp.MustCompile(`(?m)^[A-Z_]+_FILE=.*\n`)

// waysIn are what a reader begins with, each with an example that is run and whose output is compared.
var waysIn = map[string][]string{
	"store": {"Store_Schedule", "SQL", "Store_ScheduleMany", "Store_Sync", "Store_PauseUntil", "Store_PauseScope",
		"Store_History", "Store_Reconcile", "Cron", "Store_Schedule_recurring"},
	"store/inspect":    {"_deadLetters"},
	"store/recurrence": {"Parse", "Rule_Next", "Options_every", "Options_outOf", "Options_keepTo", "Options_move"},
	"store/seal":       {""}, "store/storetest": {"Pool"},
	"handlers":       {"NewRegistry", "Handle", "HandleTx", "HandleSQLTx", "Func", "Permanent", "Use", "Alias"},
	"handlers/email": {"Variant"}, "handlers/logging": {"Variant"}, "handlers/community": {""},
	"handlers/webhook": {"Variant", "Sender_Send"}, "handlers/command": {"Variant"}, "handlers/statement": {"Variant"},
	"handlers/notice": {"Variants"},
	"scheduled":       {"Node_Run", "Config_onDead", "_recurring"}, "scheduled/scheduledtest": {"Harness_RunDueAt"},
	"scheduled/dashboard": {"New"}, "migrations": {"Up"},
}

func TestEachWayInHasAnExample(t *testing.T) {
	t.Parallel()
	for folder, names := range waysIn {
		has := map[string]bool{}
		for _, path := range sourceFiles(t, "_test.go") {
			if filepath.Dir(path) != filepath.FromSlash(folder) {
				continue
			}
			file, err := parser.ParseFile(
				token.NewFileSet(), filepath.Join(repository, path), nil, parser.ParseComments,
			)
			if err != nil {
				t.Fatal(err)
			}
			for _, example := range doc.Examples(file) {
				has[example.Name] = example.Output != ""
			}
		}
		for _, name := range names {
			if name = strings.TrimPrefix(name, "_"); !has[name] && !has["_"+name] {
				t.Errorf("package %s has no Example%s with an output", folder, name)
			}
		}
	}
}

// Commands within sentences are not run, but exist, with the options that they are given.
func TestCommandsInSentences(t *testing.T) {
	t.Parallel()
	found := 0
	for _, path := range sourceFiles(t, ".md") {
		text := withoutBlocks(readFile(t, path))
		for _, at := range inlineCommand.FindAllStringSubmatchIndex(text, -1) {
			found++
			words := strings.Fields(text[at[2]:at[3]])
			if problem := exists(words); problem != "" {
				t.Errorf("%s: %s: %s", lineOf(path, text, at[0]), strings.Join(words, " "), problem)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands were found", found)
	}
}

// exists says what is wrong with a command, as far as can be told without running it.
func exists(words []string) string {
	switch {
	case words[0] == "make":
		return makeProblem(words[1:])
	case words[0] == "tasktable":
		return programProblem(words[1:])
	case len(words) > 2 && words[1] == "run":
		return programProblem(words[3:])
	}
	return goTestProblem(words[2:])
}

// programProblem finds the command and its options, whose values it does not look at.
func programProblem(args []string) string {
	args = slices.DeleteFunc(slices.Clone(args), func(word string) bool {
		return !strings.HasPrefix(word, "-") && !lowerWord.MatchString(word)
	})
	root := newProgram(nil, io.Discard, io.Discard).rootCommand()
	root.InitDefaultCompletionCmd(args...)
	command, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if len(rest) > 0 && lowerWord.MatchString(rest[0]) && command.HasAvailableSubCommands() {
		return "there is no command " + rest[0]
	}
	for _, word := range rest {
		name, long := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if long && name != "help" && command.Flags().Lookup(name) == nil {
			return "there is no option --" + name
		}
	}
	return ""
}

var (
	lowerWord  = regexp.MustCompile(`^[a-z]+$`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// makeProblem looks for the targets and variables in the Makefile.
func makeProblem(args []string) string {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		return err.Error()
	}
	var targets []string
	for _, found := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, found[1])
	}
	for _, word := range args {
		if variable, _, given := strings.Cut(word, "="); given {
			if !strings.Contains(string(makefile), "$("+variable+")") {
				return "the Makefile does not use " + variable
			}
		} else if !slices.Contains(targets, word) {
			return "the Makefile has no target " + word
		}
	}
	return ""
}

// goTestProblem looks for the packages.
func goTestProblem(args []string) string {
	for _, word := range args {
		if folder, ok := strings.CutPrefix(word, "./"); ok {
			if tests, _ := filepath.Glob(filepath.Join(repository, folder, "*_test.go")); len(tests) == 0 &&
				folder != "..." {
				return "there are no tests in " + word
			}
		}
	}
	return ""
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// lineOf names a place in a file.
func lineOf(path, text string, offset int) string {
	return path + ":" + strconv.Itoa(1+strings.Count(text[:offset], "\n"))
}
