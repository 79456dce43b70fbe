package inspect

import "strings"

// The statements of ways take the filter, the number of tasks to return, and the bounds. Those of walks also take the
// number of tasks to read. Each order and direction has a text of its own, because Postgres walks an index only for an
// ORDER BY that it knows.

// An ordering is what the statements of an order have in common.
type ordering struct {
	ends   [2]string // the ORDER BY, for both directions
	within string    // the bounds, as conditions
	has    string    // the condition of all tasks that have the order's time
	after  [2]string // that the tasks come after the page before, for both directions
}

// The ids count only at the times of the bounds. They are asked first, because Postgres reads the times of the last
// two conditions from their texts for each row, which takes longer than all else.
var orderings = map[Order]ordering{
	ByScheduled: {
		ends: [2]string{
			` ORDER BY t.scheduled_at::timestamptz, t.id::text COLLATE "C"`,
			` ORDER BY t.scheduled_at::timestamptz DESC, t.id::text COLLATE "C" DESC`,
		},
		within: `
    AND t.scheduled_at >= @low_at::timestamptz AND t.scheduled_at <= @high_at::timestamptz
    AND (t.id >= @low_id OR t.scheduled_at <> @low_at::timestamptz)
    AND (t.id < @high_id OR t.scheduled_at <> @high_at::timestamptz)`,
		after: [2]string{
			` AND (t.scheduled_at::timestamptz, t.id::text COLLATE "C") >= (@low_at::timestamptz, @low_id)`,
			` AND (t.scheduled_at::timestamptz, t.id::text COLLATE "C") < (@high_at::timestamptz, @high_id)`,
		},
	},
	ByFinished: {
		ends: [2]string{
			` ORDER BY t.finished_at, t.id::text COLLATE "C"`,
			` ORDER BY t.finished_at DESC, t.id::text COLLATE "C" DESC`,
		},
		within: `
    AND t.finished_at >= @low_at::timestamptz AND t.finished_at <= @high_at::timestamptz
    AND (t.id >= @low_id OR t.finished_at <> @low_at::timestamptz)
    AND (t.id < @high_id OR t.finished_at <> @high_at::timestamptz)`,
		has: ` AND t.finished_at IS NOT NULL`,
		after: [2]string{
			` AND (t.finished_at, t.id::text COLLATE "C") >= (@low_at::timestamptz, @low_id)`,
			` AND (t.finished_at, t.id::text COLLATE "C") < (@high_at::timestamptz, @high_id)`,
		},
	},
	ByID: {
		ends: [2]string{` ORDER BY t.id`, ` ORDER BY t.id DESC`},
		// The times are empty, but Postgres must know the types of all arguments.
		within: `
    AND t.id >= @low_id AND t.id < @high_id AND @low_at = '' AND @high_at = ''`,
		after: [2]string{` AND t.id >= @low_id`, ` AND t.id < @high_id`},
	},
}

// walks has the ranges of indexes that each walk merges, as conditions.
var walks = map[way][]string{
	// Each of the three indexes has the tasks of another state. The walk leaves out those of which the filter selects
	// none. Without that, a list of the earliest waiting tasks would step over all that have ended.
	walkScheduled: {
		`t.finished_at IS NULL AND t.lease_expires_at IS NULL
    AND (@status = '' OR string_to_array(@status, ',') && ARRAY['QUEUED', 'PAUSED'])`,
		`t.finished_at IS NULL AND t.lease_expires_at IS NOT NULL
    AND (@status = '' OR string_to_array(@status, ',') && ARRAY['QUEUED', 'PAUSED', 'EXECUTING'])`,
		`t.finished_at IS NOT NULL
    AND (@status = '' OR string_to_array(@status, ',')
        && ARRAY['COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'SKIPPED'])`,
	},
	walkTenant:   {`t.tenant_id = @tenant`},
	walkFinished: {`t.finished_at IS NOT NULL`},
	// One range of the index scheduled_tasks_rare for each status.
	walkRare: {
		`t.status = 'FAILED' AND 'FAILED' = ANY (string_to_array(@status, ',')) AND ` + hasEndedRarely,
		`t.status = 'EXPIRED' AND 'EXPIRED' = ANY (string_to_array(@status, ',')) AND ` + hasEndedRarely,
		`t.status = 'CANCELLED' AND 'CANCELLED' = ANY (string_to_array(@status, ',')) AND ` + hasEndedRarely,
		`t.status = 'SKIPPED' AND 'SKIPPED' = ANY (string_to_array(@status, ',')) AND ` + hasEndedRarely,
	},
	walkID: {`true`},
}

const (
	isRare         = `t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED')`
	hasEndedRarely = isRare + ` AND t.finished_at IS NOT NULL`
)

// sorts has the ranges of indexes that have the tasks of each sort, as conditions. The count of a sort reads them in
// the order of by, so that Postgres goes by that index.
var sorts = map[way]struct {
	conditions []string
	by         string
}{
	sortEntity:  {conditions: []string{`t.entity = @entity`}},
	sortSpawned: {conditions: []string{`t.spawned_by = @spawned_by`}},
	sortParent:  {conditions: []string{`t.parent_id = @parent`}},
	sortTenant:  {conditions: []string{`t.tenant_id = @tenant`}},
	sortGroup:   {conditions: []string{`t.group_key = @group_key`}},
	sortPrefix:  {[]string{`t.id >= @id_prefix AND t.id < @id_prefix_end`}, ` ORDER BY t.id`},
	sortWaiting: {conditions: []string{isWaiting}},
	sortFinished: {[]string{`t.finished_at >= @finished_from::timestamptz
    AND t.finished_at < coalesce(nullif(@finished_to, ''), 'infinity')::timestamptz`}, ` ORDER BY t.finished_at`},
	sortStatuses: {conditions: []string{
		isRare + ` AND t.status = ANY (string_to_array(@status, ','))`,
		`t.lease_expires_at IS NOT NULL AND t.status = 'EXECUTING'
        AND 'EXECUTING' = ANY (string_to_array(@status, ','))`,
	}},
}

// merged is a query of the tasks of several ranges. ends is the end of the query of each.
func merged(columns string, conditions []string, ends string) string {
	ranges := make([]string, len(conditions))
	for i, condition := range conditions {
		ranges[i] = `(SELECT` + columns + ` FROM tasktable.scheduled_tasks AS t WHERE ` + condition + ends + `)`
	}
	return strings.Join(ranges, ` UNION ALL `)
}

// walked is the FROM clause of the search's walk.
func (s search) walked() string {
	order := orderings[s.filter.Order]
	ends, ranges := order.ends[s.direction()]+` LIMIT @most::bigint`, walks[s.filter.walk()]
	from := merged(` t.*`, ranges, order.within+ends)
	if len(ranges) > 1 {
		from = `(SELECT t.* FROM (` + from + `) AS t` + ends + `)`
	}
	return ` FROM ` + from + ` AS t`
}

// sorted is the FROM clause of a sort. OFFSET 0 keeps Postgres from walking an index in the order of the list instead.
// Several ranges have no index in that order.
func (w way) sorted() string {
	one := sorts[w]
	if len(one.conditions) > 1 {
		return ` FROM (` + merged(` t.*`, one.conditions, ``) + `) AS t`
	}
	return ` FROM ` + merged(` t.*`, one.conditions, ` OFFSET 0`) + ` AS t`
}

// counted is the statement that counts the tasks of a sort up to a number.
func (w way) counted() string {
	one := sorts[w]
	return `SELECT` + (` count(*) FROM (` + merged(``, one.conditions, one.by+` LIMIT @most::int`) + `) AS t`)
}
