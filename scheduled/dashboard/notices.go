package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

// noticesView has the rules, the recipients and the last notices.
type noticesView struct {
	Rules      []ruleView
	Recipients []recipientView
	Last       []noticeView
	More       bool // Search has not read all tasks, so there may be more notices
	// Unsent tells that no node that runs can send notices.
	Unsent bool
}

type ruleView struct {
	rules.Rule
	Seen string // the rule as it is drawn
}

// Matches says which tasks the rule matches.
func (r ruleView) Matches() string {
	var parts []string
	for _, one := range []struct {
		name   string
		values []string
	}{{"type", r.Types}, {"queue", r.Queues}, {"tenant", r.Tenants}, {"entity", r.Entities},
		{"recurring task", r.Recurring}} {
		if len(one.values) > 0 {
			parts = append(parts, one.name+" "+strings.Join(one.values, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// DigestText is the length of the windows.
func (r ruleView) DigestText() string {
	if r.Digest == rules.AtOnce {
		return "off"
	}
	return when.LengthText(r.Digest)
}

// AfterText is how long something lasts before it is late, missed or unsuccessful.
func (r ruleView) AfterText() string { return when.LengthText(r.After) }

type recipientView struct {
	rules.Recipient
	Seen     string // the recipient as it is drawn
	NoTarget bool   // the nodes have no target of the name
}

// noticeView is a task that tells a recipient something.
type noticeView struct {
	store.Row
	Notice contract.Notice
	Shown  bool // whether the person may see the payload
}

// maxNotices bounds the last notices.
const maxNotices = 20

func noticesPage(ctx context.Context, v *visit) (any, error) {
	shown := noticesView{}
	all := v.rules()
	found, err := all.List(ctx, v.db)
	if err != nil {
		return nil, err
	}
	for _, rule := range found {
		shown.Rules = append(shown.Rules, ruleView{rule, asJSON(rule)})
	}
	recipients, err := all.Recipients(ctx, v.db)
	if err != nil {
		return nil, err
	}
	for _, one := range recipients {
		shown.Recipients = append(shown.Recipients, recipientView{one, asJSON(one), v.lacksTarget(one)})
	}
	filter := inspect.Filter{Type: contract.Notice{}.TaskType(), LatestFirst: true, Limit: maxNotices}
	last, err := v.inspector.Search(ctx, v.db, filter)
	if err != nil {
		return nil, err
	}
	shown.More = last.Cut
	for _, row := range last.Rows {
		shown.Last = append(shown.Last, v.noticeOf(ctx, row))
	}
	shown.Unsent, err = v.nobodySends(ctx)
	return shown, err
}

// lacksTarget reports whether a recipient has a target that the nodes do not have.
func (v *visit) lacksTarget(one rules.Recipient) bool {
	known := v.board.config.NoticeTargets
	return one.Target != "" && known != nil && !slices.Contains(known, one.Target)
}

func (v *visit) rules() *rules.Rules { return rules.New(rules.Config{Schema: v.board.schema}) }

// noticeOf reads the rule and the recipient in the payload of a notice, if the person may see payloads.
func (v *visit) noticeOf(ctx context.Context, row store.Row) noticeView {
	shown := noticeView{Row: row}
	text, may, err := v.payload(ctx, row)
	shown.Shown = may && err == nil && json.Unmarshal([]byte(text), &shown.Notice) == nil
	return shown
}

// nobodySends reports whether no node that runs has a handler of notices.
func (v *visit) nobodySends(ctx context.Context) (bool, error) {
	nodes, err := v.inspector.Nodes(ctx, v.db, inspect.NodeFilter{})
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(nodes, func(node inspect.Node) bool {
		return node.State != inspect.NodeSilent && slices.Contains(node.Types, contract.Notice{}.TaskType())
	}), nil
}

// testWithin is how long a node has to send a test. Then the test expires.
const testWithin = time.Minute

func sendTest(ctx context.Context, v *visit) (done, error) {
	name := v.form("recipient")
	receipt, err := v.rules().SendTest(ctx, v.db, v.tasks, name, testWithin)
	if err != nil {
		return done{}, noticeProblem(err)
	}
	said := "A test to " + name + " is scheduled. Its page tells whether a node has sent it."
	return done{text: said, to: taskPath(receipt.ID)}, nil
}

// noticeProblem tells a person about an error of package rules.
func noticeProblem(err error) error {
	switch {
	case errors.Is(err, rules.ErrUnknown):
		return notFound(sentence(err))
	case errors.Is(err, rules.ErrDeclared), errors.Is(err, rules.ErrInUse):
		return tell(http.StatusConflict, "Not possible", sentence(err))
	}
	return err
}

func asJSON(value any) string {
	encoded, _ := json.Marshal(value) // rules and recipients always encode
	return string(encoded)
}
