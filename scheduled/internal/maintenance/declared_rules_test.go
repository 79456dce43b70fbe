package maintenance

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

func (b *bench) ruleProgram(service string, recurring []store.Task, declared ...rules.Rule) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Recurring: recurring, Notices: declared}, Log: enginetest.Logger()}), b}
}

func (b *bench) rules(what, want string) {
	b.T.Helper()
	found, err := rules.New(rules.Config{}).List(b.T.Context(), b.Pool)
	b.OK(err)
	var got []string
	for _, rule := range found {
		got = append(got, rule.Name+":"+rule.DeclaredBy+":"+string(rule.Events[0]))
	}
	if text := strings.Join(got, " "); text != want {
		b.T.Errorf("%s: %q, want %q", what, text, want)
	}
}

// The newest version's rules hold, and those of others stay. A rule that cannot be declared is tried again, and keeps
// no recurring task from being declared.
func TestDeclaredRules(t *testing.T) {
	b := newBench(t)
	all := rules.New(rules.Config{})
	rule := func(name string, event rules.Event) rules.Rule {
		return rules.Rule{Name: name, Events: []rules.Event{event}, Recipients: []string{"ops"}}
	}
	older := b.ruleProgram("shop", []store.Task{cron("daily", "@daily")}, rule("dead", rules.Failed), rule("lost", rules.Lost))
	older.deploy(1)
	if err := older.runOnce(t.Context()); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "there is no ops") {
		t.Errorf("without the recipient: %v", err)
	}
	b.declared("without the recipient", "daily shop QUEUED @daily 1")
	b.rules("without the recipient", "")
	b.Did(all.SetRecipient(t.Context(), b.Pool, rules.Recipient{Name: "ops", Target: "ops"}))
	b.Did(all.Set(t.Context(), b.Pool, rule("mine", rules.Failed)))
	other := b.ruleProgram("mailer", nil, rule("mail", rules.Failed))
	other.deploy(2)
	other.looks()
	older.looks()
	b.rules("declared", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")
	if _, err := all.Set(t.Context(), b.Pool, rule("dead", rules.Late)); !errors.Is(err, rules.ErrDeclared) {
		t.Errorf("an operator changed a declared rule: %v", err)
	}

	newer := b.ruleProgram("shop", nil, rule("dead", rules.Expired))
	newer.deploy(3)
	newer.looks()
	older.looks()
	b.rules("a newer version", "dead:shop:expired mail:mailer:failed mine::failed")
	b.declared("a newer version without recurring tasks", "daily shop QUEUED @daily 1")
	b.kill(3)
	older.looks()
	b.rules("rolled back", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")

	taker := b.ruleProgram("taker", nil, rule("new", rules.Failed), rule("mine", rules.Lost))
	taker.deploy(4)
	if err := taker.runOnce(t.Context()); !errors.Is(err, rules.ErrTaken) {
		t.Errorf("took an operator's rule: %v", err)
	}
	b.rules("a name that is taken", "dead:shop:failed lost:shop:lost mail:mailer:failed mine::failed")
	empty := b.ruleProgram("mailer", nil)
	empty.config.Notices, empty.hash = []rules.Rule{}, Declaration{Notices: []rules.Rule{}}.Hash()
	empty.deploy(5)
	empty.looks()
	b.rules("an empty list", "dead:shop:failed lost:shop:lost mine::failed")
}
