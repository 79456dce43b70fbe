package contract

// The payloads of the community's recurring tasks are empty, because the handlers read their work from the tables.
// They have no key, because each recurring task has an id of its own. A single run that somebody schedules beside it
// gets a new id.

// StatusUpdate sets the status of each event by the clock: upcoming, live or finished.
type StatusUpdate struct{}

// TaskType is STATUS_UPDATE.
func (StatusUpdate) TaskType() string { return "STATUS_UPDATE" }

// GeoSummaryRefresh counts the upcoming and live events anew, by place.
type GeoSummaryRefresh struct{}

// TaskType is GEO_SUMMARY_REFRESH.
func (GeoSummaryRefresh) TaskType() string { return "GEO_SUMMARY_REFRESH" }

// TokenCleanup deletes refresh tokens, one-time passwords and sessions that have expired.
type TokenCleanup struct{}

// TaskType is TOKEN_CLEANUP.
func (TokenCleanup) TaskType() string { return "TOKEN_CLEANUP" }

// AccountSuspension suspends the accounts that moderators have flagged.
type AccountSuspension struct{}

// TaskType is ACCOUNT_SUSPENSION.
func (AccountSuspension) TaskType() string { return "ACCOUNT_SUSPENSION" }

// Purge deletes rows that are marked for it, after the time that the retention policy of their kind gives.
type Purge struct{}

// TaskType is PURGE.
func (Purge) TaskType() string { return "PURGE" }

// DeactivatedAccountPurge deletes deactivated accounts, and the rows that refer to them, after the grace period.
type DeactivatedAccountPurge struct{}

// TaskType is DEACTIVATED_ACCT_PURGE.
func (DeactivatedAccountPurge) TaskType() string { return "DEACTIVATED_ACCT_PURGE" }

// MomentCleanup hides expired moments, unless they are journaled.
type MomentCleanup struct{}

// TaskType is MOMENT_CLEANUP.
func (MomentCleanup) TaskType() string { return "MOMENT_CLEANUP" }

// MomentPurge deletes the moments that were hidden a week ago or earlier.
type MomentPurge struct{}

// TaskType is MOMENT_PURGE.
func (MomentPurge) TaskType() string { return "MOMENT_PURGE" }

// MessageExpiry deletes disappearing messages at their time.
type MessageExpiry struct{}

// TaskType is MESSAGE_EXPIRY.
func (MessageExpiry) TaskType() string { return "MESSAGE_EXPIRY" }
