package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe returns the source of axe-core, which `make test` gets from npm, or "".
var axe = sync.OnceValue(func() string {
	found, err := filepath.Glob("../../../.bin/axe-core-*.js")
	if err != nil || len(found) == 0 {
		return ""
	}
	source, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		return ""
	}
	return string(source)
})

// violation is a rule of accessibility that a page breaks, and where.
type violation struct {
	Rule  string
	Help  string
	Nodes []string
}

// rules of WCAG 2.2 A and AA, and the practices that axe-core recommends.
const violationsScript = `axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(v => ({
	Rule: v.id, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 300) + " " + n.failureSummary)})))`

// accessible fails the test for each rule that the page breaks. It reports whether the page was tested.
func (b *tab) accessible(what string) {
	b.Helper()
	if axe() == "" {
		return
	}
	read(b, chromedp.Evaluate[chromedp.Void](axe()+"; undefined"))
	found := read(b, chromedp.Evaluate[[]violation](violationsScript,
		func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	for _, one := range found {
		b.Errorf("%s: %s: %s\n%s", what, one.Rule, one.Help, fmt.Sprint(one.Nodes))
	}
}
