package notice_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A receiver that fails, hangs or limits is asked again, at its own time. One that refuses is not.
func TestReceiversThatDoNotTakeANotice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(r *receiver, config *notice.Config)
		outcome store.AttemptOutcome
		says    string
	}{
		"fails": {func(r *receiver, _ *notice.Config) { r.statuses = []int{500} }, "RETRIED", "answered 500"},
		"limits": {func(r *receiver, _ *notice.Config) {
			r.statuses, r.header = []int{429}, http.Header{"Retry-After": {"1800"}}
		}, "RETRIED", "answered 429"},
		"refuses": {func(r *receiver, _ *notice.Config) { r.statuses = []int{410} }, "FAILED", "answered 410"},
		"hangs": {func(r *receiver, config *notice.Config) {
			r.hangs = true
			config.Webhook.Timeout = 100 * time.Millisecond
		}, "RETRIED", "took longer than 100ms"},
		"is forbidden": {func(_ *receiver, config *notice.Config) { config.Webhook.Allow = nil }, "FAILED",
			"the host is refused"},
		"is unknown": {func(_ *receiver, config *notice.Config) { config.Targets = nil }, "RETRIED",
			"this node has no target ops"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			config := r.target(notice.KindTeams)
			c.prepare(r, &config)
			b := newBench(t, config)
			b.rule(rules.Rule{}, "")
			b.die("one")
			ran := b.run(nine.Add(time.Minute))
			if len(ran) != 1 || ran[0].Outcome != c.outcome || !strings.Contains(ran[0].Err.Error(), c.says) ||
				strings.Contains(ran[0].Err.Error(), canary) {
				t.Fatalf("ran %+v, want %q", ran, c.says)
			}
			if name == "limits" {
				if early := b.run(nine.Add(30 * time.Minute)); len(early) != 0 {
					t.Errorf("too early: %+v", early)
				}
				if ran := b.run(nine.Add(31*time.Minute + time.Second)); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
					t.Errorf("ran %+v", ran)
				}
			}
		})
	}
}

// A notice is not sent if its recipient is gone, if its rule is disabled or gone, or if its task was erased.
func TestANoticeThatIsNotSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, note string }{
		"disabled": {`UPDATE tasktable.notice_rules SET enabled = false`, "its rule is disabled"},
		"removed":  {`DELETE FROM tasktable.notice_rules`, "its rule was removed"},
		"gone": {`WITH m AS (DELETE FROM tasktable.notice_rule_recipients) DELETE FROM tasktable.notice_recipients`,
			"there is no such recipient"},
		"erased": {`SELECT tasktable.erase(entity => 'order:7')`, "its causes were erased, or are older than 30 days"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := benchWith(t, notice.KindNtfy, rules.Rule{})
			b.schedule(store.Task{ID: "one", At: nine, MaxAttempts: 1, Entity: "order:7",
				Payload: store.JSON(`{"type": "FAILING"}`)})
			b.run(nine)
			b.rows(c.change)
			if ran := b.run(nine.Add(time.Minute)); len(ran) != 1 || ran[0].Outcome != "COMPLETED" ||
				ran[0].Note != "not sent: "+c.note {
				t.Errorf("ran %+v", ran)
			}
			if len(r.got()) != 0 {
				t.Errorf("got %+v", r.got())
			}
		})
	}
}

// A recipient is told only the events that it wants.
func TestARecipientWantsSomeEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t, newReceiver(t).target(notice.KindNtfy))
	b.recipient(rules.Recipient{Name: "picky", Target: "ops", Events: []rules.Event{rules.Expired}})
	b.rule(rules.Rule{Recipients: []string{"ops", "picky"}}, "")
	b.die("one")
	b.want("notices", b.rows(noticesSQL), "notice/dead/ops/2035-05-01T09:01:00Z QUEUED 01 09:01:00 1")
}

// A test is sent at once, without a rule.
func TestATestIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := newBench(t, r.target(notice.KindNtfy))
	b.recipient(rules.Recipient{Name: "ops", Target: "ops"})
	b.schedule(store.Task{At: nine, Payload: store.JSON(`{"type": "NOTICE", "recipient": "ops", "test": true}`)})
	if ran := b.run(nine); len(ran) != 1 || ran[0].Note != "told ops: a test of notices" {
		t.Fatalf("ran %+v", ran)
	}
	if got := body(t, r); got != "Notices reach ops." {
		t.Errorf("got %q", got)
	}
}

func TestNewRefusesABadConfiguration(t *testing.T) {
	t.Parallel()
	good := notice.Target{Kind: notice.KindSlack, URL: "https://example.org/" + canary}
	for want, config := range map[string]notice.Config{
		"DB is required":                         {},
		`Targets["a b"]: the name must be`:       {Targets: map[string]notice.Target{"a b": good}},
		"the kind must be discord, ntfy, slack,": {Targets: map[string]notice.Target{"ops": {Kind: "fax", URL: good.URL}}},
		"the URL must be an address":             {Targets: map[string]notice.Target{"ops": {Kind: "ntfy", URL: canary}}},
		"the token must be at most": {Targets: map[string]notice.Target{
			"ops": {Kind: "ntfy", URL: good.URL, Token: canary + "\n"}}},
		"SignWith must be the name": {Targets: map[string]notice.Target{
			"ops": {Kind: "webhook", URL: good.URL, SignWith: "nobody"}}},
	} {
		_, err := notice.New(config)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	shown := notice.Config{Targets: map[string]notice.Target{"ops": good}}
	if text := fmt.Sprintf("%v %+v %#v %s", shown, shown, shown, good); strings.Contains(text, canary) {
		t.Errorf("a configuration shows its secrets: %s", text)
	}
	made, err := notice.Variants(notice.Config{DB: storetest.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if registry, err := handlers.NewRegistry(made...); err != nil || registry.Variant("NOTICE") == nil {
		t.Errorf("registry %v, %v", registry, err)
	}
}
