package dashboard

import (
	"context"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store/when"
)

// ruleFormView is the form of a rule.
type ruleFormView struct {
	Seen       string // the rule as it is drawn; "" for a new one
	DeclaredBy string // then nobody can edit it here
	Rule       ruleView
	Digest     string
	After      string
	Events     []choice
	Recipients []choice
	Errors     formErrors
}

// PerLine has one value a line.
func (ruleFormView) PerLine(values []string) string { return strings.Join(values, "\n") }

func rulePage(ctx context.Context, v *visit) (any, error) {
	rule, known, err := ruleSetting.page(ctx, v)
	if err != nil {
		return nil, err
	}
	form := ruleFormView{Seen: asJSON(rule), DeclaredBy: rule.DeclaredBy}
	if !known {
		rule, form.Seen = rules.Rule{Digest: rules.DefaultDigest, After: rules.DefaultAfter}, ""
	}
	return form.of(ctx, v, rule)
}

// of fills the form in.
func (f ruleFormView) of(ctx context.Context, v *visit, rule rules.Rule) (ruleFormView, error) {
	f.Rule, f.Events = ruleView{rule, f.Seen}, choicesOf(rules.Events(), eventLabels, rule.Events)
	f.Digest, f.After = f.Rule.DigestText(), f.Rule.AfterText()
	all, err := v.rules().Recipients(ctx, v.db)
	if err != nil {
		return f, err
	}
	names := slices.Clone(rule.Recipients) // among them may be one that somebody has removed
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		f.Recipients = append(f.Recipients, choice{name, name, slices.Contains(rule.Recipients, name)})
	}
	return f, nil
}

// setRule creates a rule, or replaces the one that the person saw.
func setRule(ctx context.Context, v *visit) (done, error) {
	rule := rules.Rule{
		Name: v.form("name"), Events: takenOf[rules.Event](v, "event"), Recipients: v.request.PostForm["recipient"],
		Types: readLines(v.form("types")), Queues: readLines(v.form("queues")), Tenants: readLines(v.form("tenants")),
		Entities: readLines(v.form("entities")), Recurring: readLines(v.form("recurring")),
		WithoutDetails: v.form("details") == "", Disabled: v.form("enabled") == "",
	}
	errs := readTimes(v, &rule)
	form, err := ruleFormView{Seen: v.form("seen"), Errors: errs}.of(ctx, v, rule)
	if err != nil {
		return done{}, err
	}
	form.Digest, form.After = v.form("digest"), v.form("after")
	outcome, err := ruleSetting.save(ctx, v, rule, errs)
	switch {
	case err != nil:
		return done{}, err
	case len(errs) > 0:
		return refused("notices-rule", "Rule", form), nil
	}
	return done{text: "The rule " + rule.Name + " is " + outcome + ".", to: "/notices"}, nil
}

// readTimes reads the durations of a rule. An empty field has the default.
func readTimes(v *visit, rule *rules.Rule) formErrors {
	errs := formErrors{}
	var err error
	switch text := v.form("digest"); text {
	case "":
	case "off":
		rule.Digest = rules.AtOnce
	default:
		if rule.Digest, err = when.Length(text); err != nil || rule.Digest == 0 {
			errs["digest"], rule.Digest = "digest must be off or a duration from 1s to 7d, such as 5m", 0
		}
	}
	if text := v.form("after"); text != "" {
		if rule.After, err = when.Length(text); err != nil || rule.After == 0 {
			errs["after"], rule.After = "after must be a duration from 1s to 366d, such as 5m or 26h", 0
		}
	}
	return errs
}
