package cmd

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
