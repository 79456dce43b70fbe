package dashboard

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// usualQuery is the look of the list without a filter: what runs, and then what is due next.
const usualQuery = "order=scheduled_at&status=EXECUTING&status=QUEUED"

// usualValues has the parameters of that look, and the place in it.
func usualValues(after string) url.Values {
	values, _ := url.ParseQuery(usualQuery)
	if after != "" {
		values.Set("after", after)
	}
	return values
}

// countedTabs are the tabs that have a number, with the status of their tasks. The others depend on the person's zone,
// or are about most of the table.
var countedTabs = map[string]string{
	"Waiting": "QUEUED", "Running": "EXECUTING", "Failed": "FAILED", "Expired": "EXPIRED", "Paused": "PAUSED",
}

// tabsFresh is how long the numbers of the tabs are kept.
const tabsFresh = 5 * time.Second

// countTabs adds the numbers of tasks. All people share the numbers, so those with a tenant see none.
func (v *visit) countTabs(ctx context.Context, chips []chip) error {
	if v.person.Tenant != "" {
		return nil
	}
	counts, err := v.board.tabs.get(ctx, tabsFresh, func(map[string]string) (map[string]string, error) {
		counts := map[string]string{}
		for label, status := range countedTabs {
			filter := inspect.Filter{Statuses: []store.Status{store.Status(status)}}
			found, more, err := v.countQuickly(ctx, filter, tabUpTo)
			switch {
			case err != nil && !errors.Is(err, errTooSlow):
				return nil, err
			case more:
				counts[label] = words.Count(found, false) + "+"
			case err == nil:
				counts[label] = words.Count(found, false)
			}
		}
		return counts, nil
	})
	for i := range chips {
		chips[i].Count = counts[chips[i].Label]
	}
	return err
}
