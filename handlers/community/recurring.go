package community

import (
	"time"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// How long the rows of occurrences are kept. Those of a busy task would otherwise be most of the table, and say little.
const (
	keepOccurrences     = 7 * 24 * time.Hour
	keepBusyOccurrences = 24 * time.Hour
)

// Recurring is the community's recurring tasks, to be declared by a node that has the handlers of Variants, or
// scheduled.
//
// All of them look at the tables as they are and do what is left to do, so a missed fire needs no run of its own: the
// next one does its work. Hence catch_up is latest; and overlap is skip, since two runs at once would only share the
// rows. For the same reason none expires: the single occurrence that waited for a node to come back is the one that
// catches up. The daily ones lie apart, at a quiet hour, since they are the ones that may find much to do.
func Recurring() []store.Task {
	return []store.Task{
		recurring("community-status-update", contract.StatusUpdate{}, "*/5 * * * *", keepOccurrences),
		recurring("community-geo-summary-refresh", contract.GeoSummaryRefresh{}, "*/5 * * * *", keepOccurrences),
		recurring("community-token-cleanup", contract.TokenCleanup{}, "0 * * * *", keepOccurrences),
		recurring("community-account-suspension", contract.AccountSuspension{}, "0 */12 * * *", keepOccurrences),
		recurring("community-purge", contract.Purge{}, "10 3 * * *", keepOccurrences),
		recurring("community-deactivated-account-purge", contract.DeactivatedAccountPurge{}, "20 3 * * *", keepOccurrences),
		recurring("community-moment-cleanup", contract.MomentCleanup{}, "*/5 * * * *", keepOccurrences),
		recurring("community-moment-purge", contract.MomentPurge{}, "30 3 * * *", keepOccurrences),
		recurring("community-message-expiry", contract.MessageExpiry{}, "*/30 * * * * *", keepBusyOccurrences),
	}
}

// The expressions are of the calendar, not @every: the fires of those stay where they are when a task is declared anew.
func recurring(id string, payload store.Payload, cron string, keep time.Duration) store.Task {
	return store.Task{ID: id, Payload: payload, Retention: keep, Recurrence: &store.Recurrence{
		Cron: cron, Overlap: store.OverlapSkip, CatchUp: store.CatchUpLatest, CatchUpPaused: store.CatchUpLatest,
	}}
}
