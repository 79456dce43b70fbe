package cmd

import (
	"os"
	"path/filepath"
	"regexp"
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
