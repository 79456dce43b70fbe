package inspect

// The statements of ways take the filter, the number of tasks to return, and the bounds. Those of walks also take the
// number of tasks to read. Both directions are written out, because Postgres walks an index only for an ORDER BY that
// it knows.
const (
	byScheduled       = ` ORDER BY t.scheduled_at::timestamptz, t.id::text COLLATE "C"`
	byScheduledLatest = ` ORDER BY t.scheduled_at::timestamptz DESC, t.id::text COLLATE "C" DESC`
	byFinished        = ` ORDER BY t.finished_at, t.id::text COLLATE "C"`
	byFinishedLatest  = ` ORDER BY t.finished_at DESC, t.id::text COLLATE "C" DESC`
	byID              = ` ORDER BY t.id`
	byIDLatest        = ` ORDER BY t.id DESC`

	readMost = ` LIMIT @most::bigint)`

	// The ids count only at the times of the bounds. They are asked first, because Postgres reads the times of the last
	// two conditions from their texts for each row, which takes longer than all else.
	withinScheduled = `
    AND t.scheduled_at >= @low_at::timestamptz AND t.scheduled_at <= @high_at::timestamptz
    AND (t.id >= @low_id OR t.scheduled_at <> @low_at::timestamptz)
    AND (t.id < @high_id OR t.scheduled_at <> @high_at::timestamptz)`
	withinFinished = `
    AND t.finished_at >= @low_at::timestamptz AND t.finished_at <= @high_at::timestamptz
    AND (t.id >= @low_id OR t.finished_at <> @low_at::timestamptz)
    AND (t.id < @high_id OR t.finished_at <> @high_at::timestamptz)`
	// The times are empty, but Postgres must know the types of all arguments.
	withinIDs = `
    AND t.id >= @low_id AND t.id < @high_id AND @low_at = '' AND @high_at = ''`
)

// An ordering is what the statements of an order have in common: the end, for both directions, and the bounds.
type ordering struct {
	ends   [2]string
	within string
}

var orderings = map[Order]ordering{
	ByScheduled: {[2]string{byScheduled, byScheduledLatest}, withinScheduled},
	ByFinished:  {[2]string{byFinished, byFinishedLatest}, withinFinished},
	ByID:        {[2]string{byID, byIDLatest}, withinIDs},
}

// walkScheduled merges three indexes, each of which has the tasks of another state. It leaves out those of which the
// filter selects none. Without that, a list of the earliest waiting tasks would step over all that have ended.
const (
	waitingTasks = `(SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.finished_at IS NULL AND t.lease_expires_at IS NULL
    AND (@status = '' OR string_to_array(@status, ',') && ARRAY['QUEUED', 'PAUSED'])` + withinScheduled
	heldTasks = ` UNION ALL (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.finished_at IS NULL AND t.lease_expires_at IS NOT NULL
    AND (@status = '' OR string_to_array(@status, ',') && ARRAY['QUEUED', 'PAUSED', 'EXECUTING'])` + withinScheduled
	endedTasks = ` UNION ALL (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.finished_at IS NOT NULL
    AND (@status = '' OR string_to_array(@status, ',')
        && ARRAY['COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'SKIPPED'])` + withinScheduled

	fromScheduled = ` FROM (SELECT t.* FROM (` + waitingTasks + byScheduled + readMost + heldTasks + byScheduled +
		readMost + endedTasks + byScheduled + readMost + `) AS t` + byScheduled + readMost
	fromScheduledLatest = ` FROM (SELECT t.* FROM (` + waitingTasks + byScheduledLatest + readMost + heldTasks +
		byScheduledLatest + readMost + endedTasks + byScheduledLatest + readMost + `) AS t` + byScheduledLatest +
		readMost
)

// walkRare merges one range of the index scheduled_tasks_rare a status.
const (
	rareTasks = `t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.finished_at IS NOT NULL` + withinFinished
	failed    = `(SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'FAILED' AND 'FAILED' = ANY (string_to_array(@status, ',')) AND ` + rareTasks
	expired = ` UNION ALL (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'EXPIRED' AND 'EXPIRED' = ANY (string_to_array(@status, ',')) AND ` + rareTasks
	cancelled = ` UNION ALL (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'CANCELLED' AND 'CANCELLED' = ANY (string_to_array(@status, ',')) AND ` + rareTasks
	skipped = ` UNION ALL (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'SKIPPED' AND 'SKIPPED' = ANY (string_to_array(@status, ',')) AND ` + rareTasks

	fromRare = ` FROM (SELECT t.* FROM (` + failed + byFinished + readMost + expired + byFinished + readMost +
		cancelled + byFinished + readMost + skipped + byFinished + readMost + `) AS t` + byFinished + readMost
	fromRareLatest = ` FROM (SELECT t.* FROM (` + failed + byFinishedLatest + readMost + expired + byFinishedLatest +
		readMost + cancelled + byFinishedLatest + readMost + skipped + byFinishedLatest + readMost + `) AS t` +
		byFinishedLatest + readMost
)

// The other walks go by one index.
const (
	ofTenant = ` FROM (SELECT t.* FROM tasktable.scheduled_tasks AS t WHERE t.tenant_id = @tenant` + withinScheduled
	ended    = ` FROM (SELECT t.* FROM tasktable.scheduled_tasks AS t WHERE t.finished_at IS NOT NULL` + withinFinished

	withIDs = ` FROM (SELECT t.* FROM tasktable.scheduled_tasks AS t WHERE true` + withinIDs

	fromTenant         = ofTenant + byScheduled + readMost
	fromTenantLatest   = ofTenant + byScheduledLatest + readMost
	fromFinished       = ended + byFinished + readMost
	fromFinishedLatest = ended + byFinishedLatest + readMost
	fromIDs            = withIDs + byID + readMost
	fromIDsLatest      = withIDs + byIDLatest + readMost
)

// walks has the FROM clause of each walk, for both directions.
var walks = map[way][2]string{
	walkScheduled: {fromScheduled, fromScheduledLatest},
	walkTenant:    {fromTenant, fromTenantLatest},
	walkFinished:  {fromFinished, fromFinishedLatest},
	walkRare:      {fromRare, fromRareLatest},
	walkID:        {fromIDs, fromIDsLatest},
}

// OFFSET 0 keeps Postgres from walking an index in the order of the list instead.
const (
	sortBegins = ` FROM (SELECT t.* FROM tasktable.scheduled_tasks AS t WHERE `
	sortEnds   = ` OFFSET 0)`
	sortRare   = ` FROM (SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.status = ANY (string_to_array(@status, ','))
    UNION ALL SELECT t.* FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL AND t.status = 'EXECUTING'
        AND 'EXECUTING' = ANY (string_to_array(@status, ',')))`
)

// The counts of sorts also take the number up to which to count.
const (
	countEntitySQL = `
SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.entity = @entity LIMIT @most::int) AS t`
	countSpawnedSQL = `
SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_tasks AS t WHERE t.spawned_by = @spawned_by LIMIT @most::int) AS t`
	countOccurrencesSQL = `
SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.parent_id = @parent LIMIT @most::int) AS t`
	countTenantSQL = `
SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.tenant_id = @tenant LIMIT @most::int) AS t`
	countGroupSQL = `
SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.group_key = @group_key LIMIT @most::int) AS t`
	countWaitingSQL = `
SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks AS t WHERE ` + isWaiting + ` LIMIT @most::int) AS t`
	countPrefixSQL = `
SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_tasks AS t WHERE t.id >= @id_prefix AND t.id < @id_prefix_end
    ORDER BY t.id LIMIT @most::int) AS t`
	countFinishedSQL = `
SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_tasks AS t
    WHERE ` + finishedRange + `
    ORDER BY t.finished_at LIMIT @most::int) AS t`
	countStatusesSQL = `
SELECT count(*) FROM (
    (SELECT FROM tasktable.scheduled_tasks AS t
    WHERE t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.status = ANY (string_to_array(@status, ','))
    LIMIT @most::int)
    UNION ALL
    (SELECT FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL AND 'EXECUTING' = ANY (string_to_array(@status, ','))
    LIMIT @most::int)) AS t`
)

// sorts has the FROM clause of each sort, and the statement that counts its tasks.
var sorts = map[way]struct{ from, count string }{
	sortEntity:   {sortBegins + `t.entity = @entity` + sortEnds, countEntitySQL},
	sortSpawned:  {sortBegins + `t.spawned_by = @spawned_by` + sortEnds, countSpawnedSQL},
	sortParent:   {sortBegins + `t.parent_id = @parent` + sortEnds, countOccurrencesSQL},
	sortTenant:   {sortBegins + `t.tenant_id = @tenant` + sortEnds, countTenantSQL},
	sortGroup:    {sortBegins + `t.group_key = @group_key` + sortEnds, countGroupSQL},
	sortPrefix:   {sortBegins + `t.id >= @id_prefix AND t.id < @id_prefix_end` + sortEnds, countPrefixSQL},
	sortWaiting:  {sortBegins + isWaiting + sortEnds, countWaitingSQL},
	sortFinished: {sortBegins + finishedRange + sortEnds, countFinishedSQL},
	sortStatuses: {sortRare, countStatusesSQL},
}

const finishedRange = `t.finished_at >= @finished_from::timestamptz
    AND t.finished_at < coalesce(nullif(@finished_to, ''), 'infinity')::timestamptz`
