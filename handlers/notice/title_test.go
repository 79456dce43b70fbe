package notice_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A subject alone says which environment and which task, and the text leads to the task's page.
func TestTitleNamesTheEnvironmentAndTheTask(t *testing.T) {
	t.Parallel()
	const page = "https://tasks-1.example.org/admin_x/tasks/"
	for kind, c := range map[notice.Kind]struct {
		path []any
		link string
	}{
		notice.KindSlack:   {[]any{"text"}, page + "nightly%2Fk%C3%B6ln_1%2A\n"},
		notice.KindDiscord: {[]any{"content"}, page + "nightly%2Fk%C3%B6ln_1%2A\n"},
		notice.KindTeams:   {[]any{"attachments", 0, "content", "body"}, "url:" + page + "nightly%2Fk%C3%B6ln_1%2A"},
		notice.KindNtfy:    {nil, page + "nightly%2Fk%C3%B6ln_1%2A\n"},
		notice.KindWebhook: {[]any{"data"}, "url:" + page + "nightly%2Fk%C3%B6ln_1%2A"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			config := r.target(kind)
			config.Environment, config.DashboardURL = "production", strings.TrimSuffix(page, "/tasks/")
			b := newBench(t, config)
			b.rule(rules.Rule{}, "")
			b.die("nightly/köln_1*")
			b.run(nine.Add(time.Minute))
			text, title := body(t, r, c.path...), r.got()[0].header.Get("Title")
			wanted := "Tasktable production: nightly/k?ln_1* failed"
			if kind == notice.KindDiscord {
				wanted = `Tasktable production: nightly/k?ln\_1\* failed`
			}
			if !strings.Contains(text, wanted) && title != wanted || !strings.Contains(text, "nvironment") ||
				!strings.Contains(text, c.link) || strings.Contains(text, "tasktable why") {
				t.Errorf("title %q, text %s", title, text)
			}
			if kind == notice.KindNtfy && r.got()[0].header.Get("Click")+"\n" != c.link {
				t.Errorf("click %q", r.got()[0].header.Get("Click"))
			}
		})
	}
}

// Of many causes the title has the first task, and then the counts. A long id is cut.
func TestTitleOfMany(t *testing.T) {
	t.Parallel()
	b, r := benchWith(t, notice.KindNtfy, rules.Rule{})
	first := strings.Repeat("x", 200)
	b.failing(nine, first)
	b.failing(nine.Add(time.Second), "b", "c")
	b.run(nine)
	b.run(nine.Add(time.Second))
	b.run(nine.Add(time.Minute))
	title, text := r.got()[0].header.Get("Title"), body(t, r)
	if want := "Tasktable: " + first[:77] + "... failed, and 2 more"; title != want {
		t.Errorf("title %q, want %q", title, want)
	}
	for _, want := range []string{"09:00:01 b (FAILING) failed: ", "\ntasktable why b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "Environment") {
		t.Errorf("an environment without a name: %s", text)
	}
}

// An id that a browser would take for a part of a path has no link.
func TestNoLinkThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	for _, id := range []string{".", "..", "/"} {
		r := newReceiver(t)
		config := r.target(notice.KindNtfy)
		config.DashboardURL = "https://tasks.example.org"
		b := newBench(t, config)
		b.rule(rules.Rule{}, "")
		b.die(id)
		b.run(nine.Add(time.Minute))
		if text := body(t, r); strings.Contains(text, "https://") || !strings.Contains(text, "tasktable why "+id) {
			t.Errorf("%q: %s", id, text)
		}
	}
}

func TestEnvironmentAndDashboardURLAreChecked(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	for _, good := range []string{"https://x", "http://127.0.0.1:8080", "http://[::1]:8080", "https://a-b.example.org/admin/tasks"} {
		if _, err := notice.New(notice.Config{DB: pool, DashboardURL: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"x", "ftp://x", "https://", "https://x/", "https://u:p@x", "https://x?a=b", "https://x#a",
		"https://x\n", "https://x/<b>", "https://" + strings.Repeat("x", 200), "javascript:alert(1)"} {
		if _, err := notice.New(notice.Config{DB: pool, DashboardURL: bad}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("took the dashboard %q: %v", bad, err)
		}
	}
	if _, err := notice.New(notice.Config{DB: pool, Environment: "<b>"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("took the environment <b>: %v", err)
	}
}
