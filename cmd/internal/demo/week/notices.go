package week

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

// notices are the rules of the week. None of them tells of the tasks of the demo's script.
func notices() ([]rules.Recipient, []rules.Rule) {
	return []rules.Recipient{
			{Name: "ops", Email: "ops@example.org"},
			{Name: "partners", Email: "partners@example.org",
				Quiet: &rules.Quiet{From: "22:00", To: "06:00", Zone: "Europe/Berlin"}},
		}, []rules.Rule{
			{Name: "dead-letters", Events: []rules.Event{rules.Failed}, Recipients: []string{"ops"},
				Types: []string{"SEND_EMAIL", "PUBLISH_SCHEDULED_POST"}, Digest: digest},
			{Name: "lost-attempts", Events: []rules.Event{rules.Lost}, Recipients: []string{"ops"}, Digest: digest},
			{Name: "partners", Events: []rules.Event{rules.Failed, rules.Expired},
				Recipients: []string{"partners", "ops"}, Types: []string{"HTTP_REQUEST", PartnerSync},
				Digest: digest, Disabled: true},
		}
}

// digest is the window of the rules.
const digest = 15 * time.Minute

// cause is a row of notice_causes.
type cause struct {
	notice, event string
	execution     *execution
}

// tell writes the notices of the executions, as the trigger of the history does.
func (w *week) tell() {
	_, all := notices()
	told := map[string]*task{}
	counts := map[string]int{}
	for _, x := range w.byEnd() {
		event := rules.Event(strings.ToLower(x.outcome))
		for _, rule := range all {
			if rule.Disabled || !slices.Contains(rule.Events, event) ||
				rule.Types != nil && !slices.Contains(rule.Types, x.task.kind) {
				continue
			}
			for _, recipient := range rule.Recipients {
				due := x.endedAt.Truncate(digest).Add(digest)
				id := fmt.Sprintf("notice/%s/%s/%s", rule.Name, recipient, due.UTC().Format(time.RFC3339))
				if told[id] == nil {
					told[id] = w.insert(x.endedAt, "schedule", "notices", &task{
						id: id, kind: "NOTICE", payload: map[string]any{"rule": rule.Name, "recipient": recipient},
						scheduledAt: due, priority: 100, expiration: 168 * time.Hour, maxAttempts: 10,
					})
				}
				counts[id]++
				w.causes = append(w.causes, cause{id, string(event), x})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		said := "failed"
		if strings.HasPrefix(id, "notice/lost") {
			said = "lost an attempt"
		}
		to := told[id].payload["recipient"]
		w.run(told[id], ending{note: fmt.Sprintf("told %s: Tasktable: %d %s", to, counts[id], said)})
	}
}

func (w *week) byEnd() []*execution {
	sorted := slices.Clone(w.executions)
	slices.SortStableFunc(sorted, func(a, b *execution) int {
		return cmp.Or(a.endedAt.Compare(b.endedAt), cmp.Compare(a.task.id, b.task.id))
	})
	return sorted
}

func writeNotices(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	keeper := rules.New(rules.Config{Schema: schema})
	recipients, all := notices()
	for _, one := range recipients {
		if _, err := keeper.SetRecipient(ctx, tx, one); err != nil {
			return err
		}
	}
	for _, one := range all {
		if _, err := keeper.Set(ctx, tx, one); err != nil {
			return err
		}
	}
	return nil
}
