package cmd

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// A link of a Markdown page to a file of the repository names one that exists, and its anchor a heading there: a
// moved section leaves no link behind that leads nowhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	found := 0
	for _, path := range sourceFiles(t, ".md") {
		text := inlineCode.ReplaceAllString(withoutBlocks(readFile(t, path)), "")
		for _, at := range markdownLink.FindAllStringSubmatchIndex(text, -1) {
			link := text[at[2]:at[3]]
			if strings.Contains(link, ":") { // another site's, or an address
				continue
			}
			found++
			if problem := linkProblem(t, path, link); problem != "" {
				t.Errorf("%s: %s: %s", lineOf(path, text, at[0]), link, problem)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}

// linkProblem says what is wrong with a relative link of a page.
func linkProblem(t *testing.T, page, link string) string {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	target := page
	if name != "" {
		target = filepath.Join(filepath.Dir(page), filepath.FromSlash(name))
	}
	if _, err := os.Stat(filepath.Join(repository, target)); err != nil {
		return "there is no " + target
	}
	if anchor != "" && (!strings.HasSuffix(target, ".md") || !anchorsOf(readFile(t, target))[anchor]) {
		return target + " has no heading #" + anchor
	}
	return ""
}

// anchorsOf are what a page's headings are called in links: in lower case, without punctuation, with hyphens for
// spaces, and a number behind one that was there before.
func anchorsOf(text string) map[string]bool {
	anchors, times := map[string]bool{}, map[string]int{}
	for _, found := range heading.FindAllStringSubmatch(withoutBlocks(text), -1) {
		anchor := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		if times[anchor]++; times[anchor] > 1 {
			anchor += "-" + strconv.Itoa(times[anchor]-1)
		}
		anchors[anchor] = true
	}
	return anchors
}

// withoutBlocks has empty lines where a page has blocks, so that places stay the same.
func withoutBlocks(text string) string {
	return fence.ReplaceAllStringFunc(text, func(block string) string {
		return strings.Repeat("\n", strings.Count(block, "\n"))
	})
}

// An application's author sees which names are not for applications: at each of them, and in a list on the page of the
// package.
func TestForEngines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"handlers", "store"} {
		page := packagePage(t, name)
		said, listed := forEngines(page), linksUnder(page, "For engines")
		slices.Sort(said)
		slices.Sort(listed)
		if len(said) == 0 || !slices.Equal(said, listed) {
			t.Errorf("package %s says \"It is for engines\" at %q, and its list names %q", name, said, listed)
		}
	}
}

// packagePage reads the documentation of a package.
func packagePage(t *testing.T, name string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository, name, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	page, err := doc.NewFromFiles(set, files, name)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// forEngines returns the types, functions and methods that say that they are for engines.
func forEngines(page *doc.Package) (names []string) {
	note := func(name, text string) {
		if strings.Contains(strings.Join(strings.Fields(text), " "), "It is for engines") {
			names = append(names, name)
		}
	}
	functions := page.Funcs
	for _, each := range page.Types {
		note(each.Name, each.Doc)
		functions = append(functions, each.Funcs...)
		for _, method := range each.Methods {
			note(each.Name+"."+method.Name, method.Doc)
		}
	}
	for _, function := range functions {
		note(function.Name, function.Doc)
	}
	return names
}

// linksUnder returns the names that the paragraphs under a heading of the package's documentation link to.
func linksUnder(page *doc.Package, heading string) (names []string) {
	under := false
	for _, block := range page.Parser().Parse(page.Doc).Content {
		switch block := block.(type) {
		case *comment.Heading:
			under = slices.Equal(block.Text, []comment.Text{comment.Plain(heading)})
		case *comment.Paragraph:
			for _, text := range block.Text {
				if link, ok := text.(*comment.DocLink); ok && under {
					names = append(names, strings.TrimPrefix(link.Recv+"."+link.Name, "."))
				}
			}
		}
	}
	return names
}
