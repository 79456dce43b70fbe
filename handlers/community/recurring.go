package community

import (
	"time"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// keepOccurrences and keepBusyOccurrences say how long the rows of finished occurrences are kept. Without the second
// bound the rows of a busy task would fill most of the table, and they say little.
const (
	keepOccurrences     = 7 * 24 * time.Hour
	keepBusyOccurrences = 24 * time.Hour
)

// Recurring returns the community's recurring tasks. A node that has the handlers of Variants declares them, or the
// application schedules them.
//
// Each of them reads the tables and does all the work that is due. So a missed fire needs no run of its own, because
// the next run does its work. Therefore catch_up is latest. Overlap is skip, because two runs at the same time would
// only share the rows. The tasks have no expiration, because the single occurrence that waited for a node to come
// back is the one that catches up. The daily tasks run at different minutes of a quiet hour, because they may find
// much work.
func Recurring() []store.Task {
	return []store.Task{
		recurring("community-status-update", contract.StatusUpdate{}, "*/5 * * * *", keepOccurrences),
		recurring("community-geo-summary-refresh", contract.GeoSummaryRefresh{}, "*/5 * * * *", keepOccurrences),
		recurring("community-token-cleanup", contract.TokenCleanup{}, "0 * * * *", keepOccurrences),
		recurring("community-account-suspension", contract.AccountSuspension{}, "0 */12 * * *", keepOccurrences),
		recurring("community-purge", contract.Purge{}, "10 3 * * *", keepOccurrences),
		recurring(
			"community-deactivated-account-purge",
			contract.DeactivatedAccountPurge{},
			"20 3 * * *",
			keepOccurrences,
		),
		recurring("community-moment-cleanup", contract.MomentCleanup{}, "*/5 * * * *", keepOccurrences),
		recurring("community-moment-purge", contract.MomentPurge{}, "30 3 * * *", keepOccurrences),
		recurring("community-message-expiry", contract.MessageExpiry{}, "*/30 * * * * *", keepBusyOccurrences),
	}
}

// recurring takes a calendar expression and not @every, because the fires of a calendar expression stay the same when
// a node declares the task anew.
func recurring(id string, payload store.Payload, cron string, keep time.Duration) store.Task {
	return store.Task{ID: id, Payload: payload, Retention: keep, Recurrence: &store.Recurrence{
		Cron: cron, Overlap: store.OverlapSkip, CatchUp: store.CatchUpLatest, CatchUpPaused: store.CatchUpLatest,
	}}
}
