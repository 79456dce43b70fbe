//go:build unix

package torture

import "time"

// minute is from what length on a run must bring most checks something to judge.
const minute = time.Minute

// checks are all promises, in the order in which they are told.
var checks = []check{
	{"claimed start", startsAreClaimed, minute},
	{"early start", noneStartsEarly, minute},
	{"late start", noneStartsExpired, minute},
	{"stale start", noneStartsStale, minute},
	{"paused start", noneStartsPaused, minute},
	{"quiet start", noneStartsQuietly, minute},
	{"call after the gate", handlersAreCalledAtOnce, minute},
	{"cancel", cancelsReachHandlers, minute},
	{"overlap", noneRunsTwiceAtOnce, minute},
	{"completed twice", completionsAreSingle, minute},
	{"stale completion", noStaleCompletion, minute},
	{"outcome", outcomesAgreeWithDiaries, minute},
	{"settle", settlesAreQuick, minute},
	{"effects", effectsAreExactlyOnce, minute},
	{"attempts", attemptsAreCounted, minute},
	{"told of the dead", deathsAreTold, minute},
	{"given up", noneIsGivenUpTooSoon, minute},
	{"application row", rowsAgreeWithTasks, minute},
	{"content", contentIsKept, minute},
	{"handler's payload", handlersSeeTheirContent, minute},
	{"written in vain", nothingIsWrittenInVain, minute},
	{"sync", syncIsExact, minute},
	{"line", linesAreTrue, minute},
	{"result", resultsAreKept, minute},
	{"wait", waitsAreKept, minute},
	{"extend", extensionsHold, minute},
	{"pause until", pausesEnd, minute},
	{"policy", policiesAreKept, minute},
	{"start latency", startsAreQuick, minute},
	{"fairness", queuesAreFair, 5 * minute},
	{"lost", noneIsLost, minute},
	{"follow-up", followUpsAreScheduled, minute},
	{"append-only", historyIsAppendOnly, minute},
	{"retention", retentionWaits, 15 * minute},
	{"execution line", claimsHaveLines, minute},
	{"change line", revisionsHaveLines, minute},
	{"leadership", leadersClaim, minute},
	{"in hand", claimsBeginOrGoBack, minute},
	{"lease", leasesAreAsLong, minute},
	{"claimed expired", noneIsClaimedExpired, minute},
	{"claimed paused", noneIsClaimedPaused, minute},
	{"priority", higherPriorityFirst, minute},
	{"fires", firesAreSingle, minute},
	{"steady fires", steadyFiresAreComplete, minute},
	{"fork", forksAdvance, minute},
	{"skipped", skipsHaveReasons, minute},
	{"gap", claimingGoesOn, minute},
	{"residue", nothingIsLeft, minute},
	{"failover", failoverIsQuick, minute},
	{"recovery", recoveryIsQuick, minute},
}
