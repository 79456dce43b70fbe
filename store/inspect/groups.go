package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Group counts the tasks of a type and a status whose messages have the same pattern. The message of a dead letter is
// its last error.
type Group struct {
	Type   string       `json:"type"`
	Status store.Status `json:"status"`
	// Entity and TenantID are set only if Groups groups by them and the tasks have them. Otherwise they are nil.
	Entity   *string `json:"entity,omitempty"`
	TenantID *string `json:"tenant_id,omitempty"`
	// Pattern is the form that the messages share. It is their first line, with a * in the place of each quoted text
	// and of each word with a digit or an @, because these are mostly the ids, numbers, addresses and times of single
	// tasks. It has at most 120 characters. Filter.Pattern selects the tasks of the pattern.
	Pattern string `json:"pattern"`
	// Message is the first line of the messages, cut at 240 characters, if it is the same in all of them. Otherwise it
	// is the pattern.
	Message string     `json:"message"`
	Count   int        `json:"count"`
	Oldest  *time.Time `json:"oldest,omitempty"` // when the first of them ended; nil if none has ended
	Latest  *time.Time `json:"latest,omitempty"` // when the last of them ended
	Example string     `json:"example"`          // the id of one of the tasks
	// Total is how many tasks all groups have together, with those that the filter's Limit leaves out. It is at most
	// MaxGrouped.
	Total int `json:"-"`
	// More says that Total is MaxGrouped, so there may be more tasks. Those that ended first are then in no group.
	More bool `json:"-"`
}

// MaxGrouped is how many tasks Groups counts, because it takes some 20 µs for each to find the form of its message.
const MaxGrouped = 20_000

// Grouping is a field by which Groups groups tasks, besides type, status and message.
type Grouping string

// The fields by which Groups can group.
const (
	ByEntity Grouping = "entity"
	ByTenant Grouping = "tenant"
)

const patternSQL = `tasktable.message_pattern(t.message)`

const groupsSQL = `
SELECT g.type, g.status, g.entity, g.tenant_id, g.pattern,
    CASE min(g.message) WHEN max(g.message) THEN min(g.message) ELSE g.pattern END AS message,
    count(*) AS count, min(g.finished_at) AS oldest, max(g.finished_at) AS latest, min(g.id) AS example,
    (sum(count(*)) OVER ())::bigint AS total, sum(count(*)) OVER () >= @most::bigint AS more
FROM (
    SELECT t.type, t.status, CASE WHEN @by = 'entity' THEN t.entity::text END AS entity,
        CASE WHEN @by = 'tenant' THEN t.tenant_id::text END AS tenant_id, t.finished_at,
            t.id::text COLLATE "C" AS id, ` + patternSQL + ` AS pattern,
        left(split_part(coalesce(t.message, ''), chr(10), 1), 240) COLLATE "C" AS message
    FROM (
        SELECT t.id, t.type, t.status, t.entity, t.tenant_id, t.finished_at, t.message
        FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL + `
        ORDER BY t.finished_at DESC NULLS LAST LIMIT @most::bigint
    ) AS t
) AS g
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC, max(g.finished_at) DESC, 1, 2, 3, 4, 5 LIMIT @limit::int`

// Groups counts the tasks that the filter selects by type, by status and by the pattern of their message. If by is
// not "", it also groups by that field. The largest group comes first. The filter's Limit is the maximum number of
// groups. Its Order, LatestFirst and After have no effect. Of more than MaxGrouped tasks Groups counts those that ended
// last.
func (i *Inspector) Groups(ctx context.Context, db store.DB, filter Filter, by Grouping) ([]Group, error) {
	if by != "" && by != ByEntity && by != ByTenant {
		return nil, fmt.Errorf("group tasks: %w", check.Invalid("grouping", "must be entity or tenant",
			fmt.Sprintf("%q", by)))
	}
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("group tasks: %w", err)
	}
	limit, err := filter.limit(10000)
	if err != nil {
		return nil, fmt.Errorf("group tasks: %w", err)
	}
	sql, bound := args.with("by", string(by), "limit", strconv.Itoa(limit),
		"most", strconv.Itoa(i.groupMost)).bind(groupsSQL)
	return query.Collect[Group](ctx, i.source, db, "group tasks", sql, bound...)
}
