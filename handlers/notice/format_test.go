package notice_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
)

// rude is an id and an error that try to act in a message.
const rude = "x<!channel> @everyone <@123> <at>a</at> *b* [c](http://d) $(rm -rf ~)'`e` \u202Ef"

// body returns the only request's body, and its text at a path of the JSON.
func body(t *testing.T, r *receiver, path ...any) string {
	t.Helper()
	got := r.got()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	if len(path) == 0 {
		return got[0].body
	}
	var value any
	if err := json.Unmarshal([]byte(got[0].body), &value); err != nil {
		t.Fatal(err)
	}
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(map[string]any)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return fmt.Sprint(value)
}

// In no service does a part that an application chose become a mention or markup, and a copied line runs nothing.
func TestNothingActsInAMessage(t *testing.T) {
	t.Parallel()
	for kind, c := range map[notice.Kind]struct {
		path []any
		want []string
	}{
		notice.KindSlack: {[]any{"text"}, []string{"x&lt;!channel&gt; @everyone &lt;@123&gt;"}},
		notice.KindDiscord: {[]any{"content"}, []string{`x\<!channel\> \@everyone \<\@123\>`, `\*b\* \[c\]\(http://d\)`,
			`\` + "`e" + `\` + "`"}},
		notice.KindTeams: {[]any{"attachments", 0, "content", "body", 4}, []string{"x<!channel>", "type:TextRun"}},
		notice.KindNtfy:  {nil, []string{"x<!channel> @everyone"}},
		notice.KindWebhook: {[]any{"data", "text"}, []string{
			`tasktable why 'x<!channel> @everyone <@123> <at>a</at> *b* [c](http://d) $(rm -rf ~)'\''` + "`e` f'\n"}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b, r := benchWith(t, kind, rules.Rule{})
			b.error = fmt.Errorf("%s\nsecond line", rude)
			b.die(rude)
			if ran := b.run(nine.Add(time.Hour)); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
				t.Fatalf("ran %+v", ran)
			}
			text := body(t, r, c.path...)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("got %s\nwant %s", text, want)
				}
			}
			if strings.Contains(text, "\u202E") || strings.Contains(text, "second line\n") == (kind == notice.KindTeams) {
				t.Errorf("got %q", text)
			}
			if kind == notice.KindDiscord && body(t, r, "allowed_mentions", "parse") != "[]" {
				t.Errorf("mentions are allowed: %s", body(t, r))
			}
			if token := r.got()[0].header.Get("Authorization"); token != "Bearer "+canary {
				t.Errorf("token %q", token)
			}
		})
	}
}

// A text over a service's limit is shortened, and says so.
func TestALongTextIsShortened(t *testing.T) {
	t.Parallel()
	for kind, c := range map[notice.Kind]struct {
		path []any
		most int
	}{
		notice.KindDiscord: {[]any{"content"}, 2000}, notice.KindNtfy: {nil, 4096}, notice.KindSlack: {[]any{"text"}, 40000},
		notice.KindTeams: {nil, 28 << 10},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b, r := benchWith(t, kind, rules.Rule{})
			b.error = fmt.Errorf("%s", strings.Repeat("ü*", 1000))
			for i := range 20 {
				b.failing(nine, fmt.Sprintf("%02d%s", i, strings.Repeat("<", 500)))
			}
			b.run(nine)
			b.run(nine.Add(time.Minute))
			text := body(t, r, c.path...)
			size := utf8.RuneCountInString(text)
			if kind == notice.KindNtfy || kind == notice.KindTeams {
				size = len(text)
			}
			if size > c.most || !utf8.ValidString(text) {
				t.Errorf("the text has %d", size)
			}
			if shortened := strings.Contains(text, "(shortened)") || strings.Contains(text, `\(shortened\)`); shortened !=
				(kind == notice.KindDiscord || kind == notice.KindNtfy) {
				t.Errorf("shortened: %v, of %d", shortened, size)
			}
		})
	}
}

// The errors of tasks are left out of a rule without details.
func TestDetailsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, without := range []bool{false, true} {
		b, r := benchWith(t, notice.KindWebhook, rules.Rule{WithoutDetails: without})
		b.error = fmt.Errorf("password %s refused", canary)
		b.die("one")
		b.run(nine.Add(time.Minute))
		if strings.Contains(body(t, r), canary) == without {
			t.Errorf("without details %v: %s", without, body(t, r))
		}
	}
}

// A webhook gets JSON with a signature of Standard Webhooks.
func TestAWebhookIsSigned(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	config := r.target(notice.KindWebhook)
	config.Targets["ops"] = notice.Target{Kind: notice.KindWebhook, URL: r.URL, SignWith: "orders"}
	b := newBench(t, config)
	b.rule(rules.Rule{}, "")
	b.die("one", "two")
	b.run(nine.Add(time.Minute))
	var got struct {
		Type string
		Data struct {
			ID, Rule, Recipient, From string
			Total                     int
			Counts                    []struct {
				Event, Type string
				Count       int
			}
			Tasks []struct {
				Event, Type, Detail string
				TaskID              string `json:"task_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body(t, r)), &got); err != nil {
		t.Fatal(err)
	}
	want := `{tasktable.notice {notice/dead/ops/2035-05-01T09:01:00Z dead ops 2035-05-01T09:00:00Z 2 ` +
		`[{failed FAILING 2}] [{failed FAILING out of paper one} {failed FAILING out of paper two}]}}`
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want\n%s", got, want)
	}
	header := r.got()[0].header
	if !strings.HasPrefix(header.Get("Webhook-Signature"), "v1,") || header.Get("Authorization") != "" ||
		!strings.HasPrefix(header.Get("Webhook-Id"), "notice/dead/ops/2035-05-01T09:01:00Z:") {
		t.Errorf("header %v", header)
	}
}
