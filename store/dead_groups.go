package store

import (
	"context"
	"fmt"
	"time"
)

// DeadGroup is the dead letters of a type and status whose last errors begin alike.
type DeadGroup struct {
	Type   string `json:"type"`
	Status Status `json:"status"`
	// Entity and TenantID are nil unless DeadGroupsBy groups by them, and for tasks that have none.
	Entity   *string `json:"entity,omitempty"`
	TenantID *string `json:"tenant_id,omitempty"`
	// Message is what the last errors have in common: the first 60 characters of their first line.
	Message string `json:"message"`
	// Shortened says that the first line of some of them is longer than Message.
	Shortened bool      `json:"shortened,omitempty"`
	Count     int       `json:"count"`
	Oldest    time.Time `json:"oldest"` // when the first of them ended
	Latest    time.Time `json:"latest"`
	Example   string    `json:"example"` // the id of one of them
}

// DeadGrouping is a field by which DeadGroupsBy groups dead letters, besides type, status and message.
type DeadGrouping string

// The fields.
const (
	DeadByEntity DeadGrouping = "entity"
	DeadByTenant DeadGrouping = "tenant"
)

// deadPrefix is how many characters of an error's first line make a group: what differs, as an id, comes mostly later.
const deadPrefix = "60"

const deadGroupsSQL = `
SELECT t.type, t.status, CASE WHEN $12::text = 'entity' THEN t.entity::text END AS entity,
    CASE WHEN $12::text = 'tenant' THEN t.tenant_id::text END AS tenant_id,
    left(split_part(coalesce(t.message, ''), chr(10), 1), $10::text::int) AS message,
    bool_or(length(split_part(coalesce(t.message, ''), chr(10), 1)) > $10::text::int) AS shortened, count(*) AS count,
    min(t.finished_at) AS oldest, max(t.finished_at) AS latest, min(t.id::text COLLATE "C") AS example
FROM tasktable.scheduled_tasks AS t` + deadWhere + `
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC, max(t.finished_at) DESC, 1, 2, 3, 4, 5 LIMIT $11::text::int`

// DeadGroups counts the dead letters that the filter selects by type, status and the beginning of their last error, the largest group
// first. The filter's Limit bounds the groups; LatestFirst and After mean nothing here. It reads the table through.
func (s *Store) DeadGroups(ctx context.Context, db DB, filter DeadFilter) ([]DeadGroup, error) {
	return s.deadGroups(ctx, db, "", filter)
}

// DeadGroupsBy is DeadGroups with one more field by which it groups.
func (s *Store) DeadGroupsBy(ctx context.Context, db DB, by DeadGrouping, filter DeadFilter) ([]DeadGroup, error) {
	if by != DeadByEntity && by != DeadByTenant {
		return nil, fmt.Errorf("group dead letters: %w", invalid("grouping", "must be entity or tenant", fmt.Sprintf("%q", by)))
	}
	return s.deadGroups(ctx, db, by, filter)
}

func (s *Store) deadGroups(ctx context.Context, db DB, by DeadGrouping, filter DeadFilter) ([]DeadGroup, error) {
	filter.After = nil
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("group dead letters: %w", err)
	}
	limit := args[len(args)-1]
	where, err := filter.whereArgs()
	if err != nil {
		return nil, fmt.Errorf("group dead letters: %w", err)
	}
	return collect[DeadGroup](ctx, s, db, "group dead letters", deadGroupsSQL, append(where, deadPrefix, limit, string(by))...)
}
