// Package browsertest looks at the dashboard in a real browser. It needs a Chromium on the PATH. Without one its tests
// are skipped, and `make test` says so.
package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// waitLimit bounds each step. A browser that is starved of the processor needs its time.
const waitLimit = time.Minute

func TestMain(m *testing.M) { storetest.Main(m, func() error { stopBrowser(); return nil }) }

var stopBrowser = func() {}

// startedBrowser returns the Chromium that all tests share, or the reason that there is none. Each tab has a browser
// context of its own, with its own cookies.
var startedBrowser = sync.OnceValues(func() (browser context.Context, none string) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, "no chromium on the PATH: the dashboard was not looked at in a browser"
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("hide-scrollbars", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stop := chromedp.NewContext(alloc)
	stopBrowser = func() { stop(); stopAlloc() }
	if err := chromedp.Do(browser); err != nil {
		none = "chromium does not start: " + err.Error()
	}
	return browser, none
})

// site is a dashboard, with its database.
type site struct {
	*testing.T

	pool  *pgxpool.Pool
	tasks *store.Store
	url   string
}

func newSite(t *testing.T, changes ...func(*dashboard.Config)) *site {
	t.Helper()
	config := dashboard.Config{Pool: storetest.Pool(t), Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&config)
	}
	board, err := dashboard.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	return &site{
		T: t, pool: config.Pool, tasks: store.New(store.Config{Service: "test"}),
		url: server.URL,
	}
}

// key makes a key and returns its secret.
func (s *site) key(name string, scopes ...keys.Scope) string {
	s.Helper()
	secret, _, err := keys.New(keys.Config{}).Create(s.Context(), s.pool,
		keys.NewKey{Name: name, Scopes: scopes})
	if err != nil {
		s.Fatal(err)
	}
	return secret
}

// tab is a tab of a browser. When the test ends it must have no error on its console, and must have asked no other host.
type tab struct {
	*site

	ctx context.Context //nolint:containedctx // chromedp keeps the tab in a context

	mutex    sync.Mutex
	problems []string
	expected []string // parts of messages that the test wants
}

// open opens a tab in a browser of its own.
func (s *site) open() *tab {
	s.Helper()
	browser, none := startedBrowser()
	if none != "" {
		s.Skip(none)
	}
	b := &tab{site: s}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.heard))
	b.ctx = ctx
	s.Cleanup(func() {
		cancel()
		b.mutex.Lock()
		defer b.mutex.Unlock()
		for _, problem := range b.problems {
			s.Errorf("the browser: %s", problem)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // without a deadline, which would end the tab
		s.Fatal(err)
	}
	return b
}

// heard notes errors of the console and requests to other hosts.
func (b *tab) heard(event any) {
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		b.note("exception: " + event.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError || event.Entry.Level == log.EntryLevelWarning {
			b.note(fmt.Sprintf("console: %s %s", event.Entry.Text, event.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		if asked, err := url.Parse(event.Request.URL); err == nil && asked.Scheme != "data" &&
			asked.Scheme+"://"+asked.Host != b.url && asked.Scheme != "about" {
			b.note("a request to another host: " + event.Request.URL)
		}
	}
}

func (b *tab) note(problem string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, part := range b.expected {
		if strings.Contains(problem, part) {
			return
		}
	}
	b.problems = append(b.problems, problem)
}

// expect tells that the console may say something.
func (b *tab) expect(part string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.expected = append(b.expected, part)
}

// do runs actions, with a deadline.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLimit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.fail(err)
	}
}

// read runs an action that has a value.
func read[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.fail(err)
	}
	return value
}

// fail ends the test. It prints the address and the text of the page.
func (b *tab) fail(err error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLimit)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	b.Fatalf("%v\nat %.2000s", err, text)
}

// look loads a page.
func (b *tab) look(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.url+path), chromedp.WaitReady(chromedp.CSS("#main")))
}

// signIn signs in by the form.
func (b *tab) signIn(secret string) {
	b.Helper()
	b.look("/")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), secret), chromedp.Submit(chromedp.CSS("#key")),
		chromedp.WaitVisible(chromedp.CSS("header .person")))
}

// is waits until an expression of JavaScript is true. A page may be loaded meanwhile.
func (b *tab) is(expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLimit)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && holds {
			return
		}
		select {
		case <-ctx.Done():
			b.fail(fmt.Errorf("it does not become true: %s", expression))
		case <-again.C:
		}
	}
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.Helper()
	b.is("document.body.innerText.includes(" + strconv.Quote(text) + ")")
}

// press presses keys where no field has the focus.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement && document.activeElement.blur(); undefined`),
		chromedp.KeyEvent(keys))
}

// withoutScript makes a browser that runs no JavaScript.
func (b *tab) withoutScript() {
	b.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
	})
}

// submit presses the first button with a text.
func (b *tab) submit(text string) {
	b.Helper()
	b.do(chromedp.Click(`//button[normalize-space()="` + text + `"]`))
}

// size sets the size and the colors of the page.
func (b *tab) size(width int64, theme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, 900), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
	})
}
