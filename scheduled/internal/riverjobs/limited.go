package riverjobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/riverqueue/river/riverdriver"
)

// limited is the types with a limit on this node. River fetches as many jobs as a queue has workers, of whatever kind.
// A node that fetched more jobs of a type than it may run would keep them from other nodes. So each such type has a
// queue of River of its own on this node, with as many workers as the limit is. No job is in that queue. The node
// fetches for it the type's jobs of all queues, and for the other queues the jobs of all other types.
type limited struct {
	queues []string          // that the node works
	types  map[string]string // by the name of the queue that River has for it
}

// newLimited names River's queues for the types with a limit. No task has a queue with such a name.
func newLimited(config ClientConfig) limited {
	types := map[string]string{}
	for i, kind := range slices.Sorted(maps.Keys(config.TypeSlots)) {
		if slices.Contains(config.Types, kind) {
			types[fmt.Sprintf("type|%d", i)] = kind
		}
	}
	return limited{slices.Sorted(maps.Keys(config.Slots)), types}
}

// fetchLimitedSQL is fetchSQL for several queues.
var fetchLimitedSQL = strings.Replace(fetchSQL, "j.queue = $1::text", "j.queue = ANY ($1::text[])", 1)

// fetch returns the statement that fetches for one of River's queues, and from which queues and of which kinds.
func (l limited) fetch(queue string, known []string) (statement string, queues any, kinds []string) {
	if len(l.types) == 0 {
		return fetchSQL, queue, known
	}
	if kind, is := l.types[queue]; is {
		return fetchLimitedSQL, l.queues, []string{kind}
	}
	apart := slices.Collect(maps.Values(l.types))
	return fetchSQL, queue, slices.DeleteFunc(slices.Clone(known), func(kind string) bool {
		return slices.Contains(apart, kind)
	})
}

// WaitForNotification lets River look for jobs of the types with a limit, too, when it is told of a new job.
func (l *riverListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	if len(l.more) > 0 {
		next := l.more[0]
		l.more = l.more[1:]
		return next, nil
	}
	heard, err := l.Listener.WaitForNotification(ctx)
	if err == nil && heard.Topic == insertTopic {
		for queue := range l.limited.types {
			payload, _ := json.Marshal(map[string]string{"queue": queue}) // a text always encodes
			l.more = append(l.more, &riverdriver.Notification{Topic: insertTopic, Payload: string(payload)})
		}
	}
	return heard, err
}

// insertTopic is the topic by which River tells of new jobs.
const insertTopic = "river_insert"
