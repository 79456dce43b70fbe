package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

// setting is a kind of thing that somebody edits here: a rule or a recipient. It has no revision. So each form has the
// JSON of the thing as it was drawn, in the field seen.
type setting[T interface{ Check() error }] struct {
	what   string
	lock   string // the statement that locks the thing of a name
	name   func(T) string
	list   func(*rules.Rules, context.Context, store.DB) ([]T, error)
	set    func(*rules.Rules, context.Context, store.DB, T) (outcome string, err error)
	remove func(*rules.Rules, context.Context, store.DB, string) error
	// afterwards tells what a removal means.
	afterwards string
}

var ruleSetting = setting[rules.Rule]{
	what: "rule", lock: `SELECT FROM tasktable.notice_rules WHERE name = $1::text FOR UPDATE`,
	name: func(rule rules.Rule) string { return rule.Name },
	list: (*rules.Rules).List, set: (*rules.Rules).Set, remove: (*rules.Rules).Remove,
	afterwards: "Notices that it has scheduled are not sent.",
}

var recipientSetting = setting[rules.Recipient]{
	what: "recipient", lock: `SELECT FROM tasktable.notice_recipients WHERE name = $1::text FOR UPDATE`,
	name: func(recipient rules.Recipient) string { return recipient.Name },
	list: (*rules.Rules).Recipients, set: (*rules.Rules).SetRecipient, remove: (*rules.Rules).RemoveRecipient,
	afterwards: "Nothing is sent to it any more.",
}

// find returns the thing of a name.
func (s setting[T]) find(ctx context.Context, v *visit, name string) (found T, known bool, err error) {
	all, err := s.list(v.rules(), ctx, v.db)
	if err != nil {
		return found, false, err
	}
	at := slices.IndexFunc(all, func(one T) bool { return s.name(one) == name })
	if at < 0 {
		return found, false, nil
	}
	return all[at], true, nil
}

// page returns the thing that the parameter name of an address asks for. Without a name it is a new one.
func (s setting[T]) page(ctx context.Context, v *visit) (found T, known bool, err error) {
	name := v.query("name")
	if name == "" {
		return found, false, nil
	}
	found, known, err = s.find(ctx, v, name)
	if err == nil && !known {
		err = notFound(fmt.Sprintf("There is no %s %.100q.", s.what, name))
	}
	return found, known, err
}

// locked returns the thing of a name, which nobody else can change until the act ends. The error tells what somebody
// has changed since the person saw it.
func (s setting[T]) locked(ctx context.Context, v *visit, name string) (found T, err error) {
	tx, _ := v.db.(pgx.Tx)
	_, known, err := s.find(ctx, v, name) // a name that is known can be bound
	if err == nil && known {
		_, err = tx.Exec(ctx, v.board.schema.SQL(s.lock), name)
	}
	if err == nil && known {
		found, known, err = s.find(ctx, v, name)
	}
	switch {
	case err != nil:
		return found, fmt.Errorf("lock %s %.100q: %w", s.what, name, err)
	case !known:
		return found, conflict(fmt.Sprintf("There is no %s %.100q any more. Nothing was done.", s.what, name))
	case asJSON(found) != v.form("seen"):
		told := conflict("Somebody has changed the " + s.what + " " + name + " since you saw it. Nothing was done. " +
			"Look at it again.")
		told.view.Fields = v.fieldsOf([]byte(v.form("seen")), []byte(asJSON(found)))
		return found, told
	}
	return found, nil
}

// save creates the thing of a form, or replaces the one that the person saw. It adds the errors of fields to wrong, and
// then saves nothing.
func (s setting[T]) save(ctx context.Context, v *visit, made T, wrong formErrors) (outcome string, err error) {
	seen, name := v.form("seen"), s.name(made)
	if seen != "" {
		if _, err := s.locked(ctx, v, name); err != nil {
			return "", err
		}
	}
	if err := made.Check(); err != nil {
		wrong.add(err, renamedFields)
	}
	if len(wrong) > 0 {
		return "", nil
	}
	outcome, err = s.set(v.rules(), ctx, v.db, made)
	switch {
	case errors.Is(err, store.ErrInvalid):
		wrong.add(err, renamedFields)
		return "", nil
	case err != nil:
		return "", noticeProblem(err)
	case seen == "" && outcome != rules.Created: // another person has made it meanwhile
		return "", conflict("There is a " + s.what + " " + name + " already. Nothing was done.")
	}
	return outcome, nil
}

func enableRule(ctx context.Context, v *visit) (done, error) {
	rule, err := ruleSetting.locked(ctx, v, v.form("name"))
	if err != nil {
		return done{}, err
	}
	said := "disabled"
	if rule.Disabled = v.form("enabled") != "true"; !rule.Disabled {
		said = "enabled"
	}
	if _, err := v.rules().Set(ctx, v.db, rule); err != nil {
		return done{}, noticeProblem(err)
	}
	return done{text: "The rule " + rule.Name + " is " + said + ".", to: "/notices"}, nil
}

// removeIt removes the thing that the form names, after a question.
func (s setting[T]) removeIt(ctx context.Context, v *visit) (done, error) {
	found, err := s.locked(ctx, v, v.form("name"))
	if err != nil {
		return done{}, err
	}
	name := s.name(found)
	if err := s.remove(v.rules(), ctx, v.db, name); err != nil {
		return done{}, noticeProblem(err)
	}
	if v.form("confirmed") == "" {
		// The removal is undone. So the question comes only if the answer can be yes.
		asked := confirmation{Said: []remark{{Text: s.afterwards + " This cannot be undone."}},
			Path: "/notices/" + s.what + "/remove", Button: "Remove " + name, Danger: true, Back: "/notices"}
		return asked.with("name", name, "seen", v.form("seen")).asked("Remove the " + s.what + " " + name + "?"), nil
	}
	return done{text: "The " + s.what + " " + name + " is removed.", to: "/notices"}, nil
}

var eventLabels = map[rules.Event]string{
	rules.Failed:       "failed: a task failed for good",
	rules.Expired:      "expired: a task expired before an attempt could start",
	rules.Lost:         "lost: the node of an attempt died, or its lease ended",
	rules.Late:         "late: tasks are due and were not claimed",
	rules.Missed:       "missed: a fire of a recurring task has not come in time",
	rules.Unsuccessful: "unsuccessful: no occurrence of a recurring task has completed",
	rules.Recovered:    "recovered: late, missed or unsuccessful no more",
}

// renamedFields are the fields of forms for those that errors name.
var renamedFields = map[string]string{
	"types,": "types", "type": "types", "queue": "queues", "tenant_id": "tenants", "entity": "entities",
	"id": "recurring", "recipient": "email", "a": "email",
}
