package dashboard_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// newNotices is a dashboard with two recipients and three rules, one of which code has declared.
func newNotices(t *testing.T, changes ...func(*dashboard.Config)) *board {
	t.Helper()
	b := newAdmin(t, changes...)
	all := rules.New(rules.Config{})
	for _, one := range []rules.Recipient{
		{Name: "ann", Email: "ann@example.org", Events: []rules.Event{rules.Failed}},
		{Name: "ops", Target: "pager"},
	} {
		b.must(all.SetRecipient(t.Context(), b.pool, one))
	}
	dead := rules.Rule{Name: "dead", Events: []rules.Event{rules.Failed, rules.Expired}, Recipients: []string{"ops"},
		Types: []string{"A<b>", "B1"}, Tenants: []string{"<i>acme"}, After: 26 * time.Hour}
	b.must(all.Set(t.Context(), b.pool, dead))
	nightly := rules.Rule{Name: "nightly", Events: []rules.Event{rules.Missed}, Recipients: []string{"ops"}}
	if err := all.Declare(t.Context(), b.pool, "<i>shop", []rules.Rule{nightly}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *board) rule(name string) rules.Rule {
	b.Helper()
	all, err := rules.New(rules.Config{}).List(b.Context(), b.pool)
	return named(b.T, all, err, func(one rules.Rule) bool { return one.Name == name })
}

func (b *board) recipient(name string) rules.Recipient {
	b.Helper()
	all, err := rules.New(rules.Config{}).Recipients(b.Context(), b.pool)
	return named(b.T, all, err, func(one rules.Recipient) bool { return one.Name == name })
}

// named returns the one that is meant, or nothing.
func named[T any](t *testing.T, all []T, err error, isMeant func(T) bool) (found T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if at := slices.IndexFunc(all, isMeant); at >= 0 {
		found = all[at]
	}
	return found
}

func seen(of any) string {
	encoded, _ := json.Marshal(of)
	return string(encoded)
}

func TestNoticesAreListed(t *testing.T) {
	t.Parallel()
	newAdmin(t).get("/notices").wants(t, http.StatusOK, "There are no rules", "There are no recipients", "No notice has")
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newNotices(t, func(c *dashboard.Config) { c.Prefix = prefix })
		b.schedule(store.Task{ID: "notice/dead/ops/1", Payload: store.JSON(`{"type":"NOTICE","rule":"dead","recipient":"<i>ops"}`)})
		got := b.get("/notices").wants(t, http.StatusOK, "dead", "failed, expired", "type A&lt;b&gt;, B1; tenant &lt;i&gt;acme",
			"1d2h", "declared in the code of &lt;i&gt;shop", "target pager",
			"&lt;i&gt;ops", `href="`+prefix+`/tasks/notice%2Fdead%2Fops%2F1"`, "No node that runs can send notices")
		if n := strings.Count(got.text, "/notices/rule/enable"); n != 1 {
			t.Errorf("%d rules can be disabled", n)
		}
		b.get("/notices/rule?name=nightly").wants(t, http.StatusOK, "declares this rule").lacks(t, "Save the rule")
		b.get("/notices/rule?name=dead").wants(t, http.StatusOK, `value="1d2h"`, `value="failed" checked`, "A&lt;b&gt;\nB1<")
		b.get("/notices/recipient?name=ann").wants(t, http.StatusOK, `value="failed" checked`, "ann@example.org")
		b.get("/notices/rule?name=nobody").wants(t, http.StatusNotFound)
		b.exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types)
			VALUES ('s', 'v1', 'h/1', '{"default": 1}', '{NOTICE}')`)
		b.get("/notices").wants(t, http.StatusOK, "No node that runs can send notices") // it is silent
	}
}

func TestRuleIsCreatedEditedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newNotices(t)
	fields := []string{"name", "new", "event", "late", "event", "recovered", "recipient", "ann", "recipient", "ops",
		"digest", "off", "after", "2h", "queues", "mail\r\n\r\n bulk ", "entities", "order:7", "enabled", "1"}
	b.post("/notices/rule", fields...).wants(t, http.StatusOK, "The rule new is created.")
	want := rules.Rule{Name: "new", Events: []rules.Event{rules.Late, rules.Recovered}, Recipients: []string{"ann", "ops"},
		Digest: rules.AtOnce, After: 2 * time.Hour, Queues: []string{"mail", "bulk"}, Entities: []string{"order:7"},
		WithoutDetails: true}
	if got := b.rule("new"); !reflect.DeepEqual(got, want) {
		t.Errorf("rule %+v", got)
	}
	b.post("/notices/rule", fields...).wants(t, http.StatusConflict, "There is a rule new already.")
	drawn := b.get("/notices/rule?name=new").field(t, "seen")
	b.post("/notices/rule", "seen", drawn, "name", "new", "event", "failed", "recipient", "ops", "details", "1",
		"enabled", "1").wants(t, http.StatusOK, "The rule new is updated.")
	want = rules.Rule{Name: "new", Events: []rules.Event{rules.Failed}, Recipients: []string{"ops"},
		Digest: rules.DefaultDigest, After: rules.DefaultAfter}
	if got := b.rule("new"); !reflect.DeepEqual(got, want) {
		t.Errorf("rule %+v", got)
	}
	b.post("/notices/rule/enable", "seen", seen(want), "name", "new", "enabled", "false").
		wants(t, http.StatusOK, "The rule new is disabled.")
	if want.Disabled = true; !b.rule("new").Disabled {
		t.Error("the rule is enabled")
	}
	b.post("/notices/rule/enable", "seen", seen(want), "name", "new", "enabled", "true").wants(t, http.StatusOK, "is enabled.")
	want.Disabled = false
	b.post("/notices/rule/remove", "seen", seen(want), "name", "new").wants(t, http.StatusOK, "Remove the rule new?")
	if b.rule("new").Name == "" {
		t.Fatal("removed without a question")
	}
	b.post("/notices/rule/remove", "seen", seen(want), "name", "new", "confirmed", "1").wants(t, http.StatusOK, "is removed.")
	if b.rule("new").Name != "" {
		t.Error("the rule is still there")
	}
	b.post("/notices/rule", "seen", seen(want), "name", "new", "event", "failed", "recipient", "ops").
		wants(t, http.StatusConflict, "There is no rule")
}

// Every act on a rule or a recipient that somebody else has changed meanwhile tells what has changed, and does nothing.
func TestNoticesChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newNotices(t)
	rule, ann := b.rule("dead"), b.recipient("ann")
	rule.After, ann.Email = time.Minute, "old@example.org"
	for path, was := range map[string]any{
		"/notices/rule": rule, "/notices/rule/enable": rule, "/notices/rule/remove": rule,
		"/notices/recipient": ann, "/notices/recipient/remove": ann,
	} {
		name, change := "dead", "after_seconds 60 → 93600"
		if strings.Contains(path, "recipient") {
			name, change = "ann", "email old@example.org → ann@example.org"
		}
		b.post(path, "seen", seen(was), "name", name, "event", "lost", "recipient", "ops", "target", "x", "confirmed", "1").
			wants(t, http.StatusConflict, "Somebody has changed", change)
	}
	for path, name := range map[string]string{"/notices/rule": "dead", "/notices/recipient": "ann"} {
		b.post(path, "name", name, "event", "lost", "recipient", "ops", "target", "x").wants(t, http.StatusConflict, "already")
	}
	for _, path := range []string{"/notices/rule", "/notices/rule/enable", "/notices/rule/remove"} {
		b.post(path, "seen", seen(b.rule("nightly")), "name", "nightly", "event", "lost", "recipient", "ops",
			"confirmed", "1").wants(t, http.StatusConflict, "declared in code")
	}
	b.post("/notices/recipient/remove", "seen", seen(b.recipient("ops")), "name", "ops", "confirmed", "1").
		wants(t, http.StatusConflict, "a rule names the recipient: dead, nightly")
	if b.rule("dead").After != 26*time.Hour || b.recipient("ann").Email != "ann@example.org" || b.rule("nightly").Disabled {
		t.Error("something was changed")
	}
}

func TestBadRuleIsNamedByItsField(t *testing.T) {
	t.Parallel()
	b := newNotices(t)
	for _, one := range []struct{ path, name, value, want string }{
		{"rule", "name", "a b", `id="name-error">name must be`},
		{"rule", "event", "", `id="event-error">events must be of failed`},
		{"rule", "recipient", "nobody", `id="recipient-error">recipients must be names of recipients; there is no nobody`},
		{"rule", "digest", "soon", `id="digest-error">digest must be off or`},
		{"rule", "digest", "8d", `id="digest-error">digest must be whole seconds`},
		{"rule", "after", "400d", `id="after-error">after must be whole seconds`},
		{"rule", "after", "x", `id="after-error">after must be a duration`},
		{"rule", "types", "<script>", `id="types-error">type must be`},
		{"rule", "queues", "A B", `id="queues-error">queue must be`},
		{"rule", "tenants", strings.Repeat("x", 600), `id="tenants-error">tenant_id must be`},
		{"rule", "entities", strings.Repeat("x", 600), `id="entities-error">entity must be`},
		{"rule", "entities", strings.Repeat("x\n", 101), `id="entities-error">entities must have at most 100`},
		{"recipient", "name", "", `id="name-error">name must be`},
		{"recipient", "email", "a@b.c", `id="email-error">recipient new must have either`},
		{"recipient", "target", "a b", `id="target-error">target must be`},
		{"recipient", "event", "x", `id="event-error">events must be of`},
	} {
		fields := []string{one.name, one.value} // the first of two values counts
		fields = append(fields, "name", "new", "event", "failed", "target", "pager")
		if one.name != "recipient" {
			fields = append(fields, "recipient", "ops")
		}
		b.post("/notices/"+one.path, fields...).wants(t, http.StatusUnprocessableEntity, one.want)
	}
	b.post("/notices/recipient", "name", "new", "email", "no address").
		wants(t, http.StatusUnprocessableEntity, `id="email-error">email must be one address`)
	b.post("/notices/rule", "name", "new", "entities", "a\x00b").wants(t, http.StatusUnprocessableEntity, "without NUL")
	if b.rule("new").Name != "" || b.recipient("new").Name != "" {
		t.Error("something was written")
	}
}

func TestRecipientIsCreatedEditedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newNotices(t)
	b.post("/notices/recipient", "name", "bob", "email", "bob@example.org", "event", "lost").
		wants(t, http.StatusOK, "The recipient bob is created.")
	bob := b.recipient("bob")
	if want := (rules.Recipient{Name: "bob", Email: "bob@example.org", Events: []rules.Event{rules.Lost}}); !reflect.DeepEqual(bob, want) {
		t.Errorf("recipient %+v", bob)
	}
	b.post("/notices/recipient", "seen", seen(b.recipient("ann")), "name", "ann", "target", "pager").
		wants(t, http.StatusOK, "The recipient ann is updated.")
	if got := b.recipient("ann"); got.Target != "pager" || got.Email != "" {
		t.Errorf("recipient %+v", got)
	}
	b.post("/notices/recipient/remove", "seen", seen(bob), "name", "bob").wants(t, http.StatusOK, "Remove the recipient bob?")
	b.post("/notices/recipient/remove", "seen", seen(bob), "name", "bob", "confirmed", "1").wants(t, http.StatusOK, "removed")
	if b.recipient("bob").Name != "" {
		t.Error("the recipient is still there")
	}
}

func TestNoticeTest(t *testing.T) {
	t.Parallel()
	b := newNotices(t)
	b.noRedirects()
	got := b.post("/notices/test", "recipient", "ops").wants(t, http.StatusSeeOther)
	row := b.row(strings.TrimPrefix(got.header.Get("Location"), "/tasks/"))
	if string(row.Payload) != `{"test": true, "type": "NOTICE", "recipient": "ops"}` || row.ScheduledBy == nil || *row.ScheduledBy != "ann" ||
		*row.Expiration != time.Minute {
		t.Errorf("task %+v: %s", row, row.Payload)
	}
	b.post("/notices/test", "recipient", "nobody").wants(t, http.StatusNotFound, "no such name")
	b.get("/notices").wants(t, http.StatusOK, "a test", row.ID)
}

// A recipient whose target the nodes do not have is told nothing, so the page says so, also before a rule names it.
func TestNoticesWarn(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) { c.NoticeTargets = []string{"ops"} })
	const lacks, unsent = "which this program does not have", "No node that runs can send notices"
	b.get("/notices").wants(t, http.StatusOK, unsent, "No notice has been scheduled yet.")
	b.post("/notices/recipient", "name", "ops", "target", "ops").wants(t, http.StatusOK, "is created").lacks(t, lacks, "has no target")
	b.post("/notices/recipient", "name", "bob", "email", "bob@example.org").wants(t, http.StatusOK).lacks(t, lacks)
	b.post("/notices/recipient", "name", "other", "target", "phone").wants(t, http.StatusOK, "this program has no target phone", lacks)
	b.node("shop", "v1", `{"default": 1}`, `{NOTICE}`, false)
	b.get("/notices").wants(t, http.StatusOK).lacks(t, unsent)
	unknown := newAdmin(t)
	unknown.post("/notices/recipient", "name", "ops", "target", "ops").wants(t, http.StatusOK).lacks(t, lacks, "has no target")
}
