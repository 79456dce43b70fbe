package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// firesTold is the number of next fires that are told for a recurring task.
const firesTold = 3

// inTime is the text for the expiry of a task that nothing known keeps from running before.
const inTime = "it expires, if it has not started by then"

// next returns what will happen next if nothing changes, and what if the task dies.
func (e *Explanation) next(known life) []Upcoming {
	if e.Row == nil {
		return nil
	}
	upcoming := e.ahead(known)
	if text := ifDeadText(*e.Row); text != "" && e.Row.FinishedAt == nil && e.Row.Cron == nil {
		upcoming = append(upcoming, Upcoming{nil, text})
	}
	return upcoming
}

// ifDeadTold is the number of tasks that are told by name.
const ifDeadTold = 3

func ifDeadText(row store.Row) string {
	of, _ := store.TaskOf(row) // without its tasks the text is about nothing
	var names []string
	for i, task := range of.IfDead {
		if i == ifDeadTold {
			names = append(names, fmt.Sprintf("%d others", len(of.IfDead)-i))
			break
		}
		id := cmp.Or(task.ID, fmt.Sprintf("%s/dead/%d", row.ID, i+1))
		names = append(names, fmt.Sprintf("%s (%s)", id, task.Payload.TaskType()))
	}
	if len(names) == 0 {
		return ""
	}
	return "if it becomes FAILED or EXPIRED, it schedules " + strings.Join(names, ", ")
}

func (e *Explanation) ahead(known life) (upcoming []Upcoming) {
	at := func(t *time.Time, text string) { upcoming = append(upcoming, Upcoming{t, text}) }
	row := *e.Row
	switch e.Reason.Code {
	case "not_due", "retry", "paused", "paused_scope":
		return e.course(known)
	case "planning":
		if rests(row, e.At) {
			at(nil, "the leader plans it when somebody changes its calendars")
		} else {
			at(nil, "the leader claims it when its turn comes")
		}
	case "in_line", "limited", "firing":
		at(nil, "the leader claims it when its turn comes")
	case "no_node", "no_worker", "no_type", "no_queue", "no_both", "no_leader":
		at(nil, "it runs as soon as such a node runs and a node leads")
	case "running", "edited":
		switch {
		case known.unfetched() && e.Reason.unworked():
			at(nil, "the leader hands it back, and it waits for a node that works its queue and its type")
		case known.unfetched():
			at(row.LeaseExpiresAt, "its lease ends, and it is claimed again, unless a node has fetched it by then")
		default:
			at(row.LeaseExpiresAt, "its lease ends, unless its handler has ended or has lengthened it")
		}
	case "expires":
		if e.Reason.Obstacle != "" { // the leader reads only lanes that can run
			at(nil, "it becomes EXPIRED, a dead letter, when nothing holds it up any more")
		} else {
			at(nil, "the leader comes to it when there is room, and it becomes EXPIRED, a dead letter")
		}
	case "lapsed":
		at(nil, "the leader takes its claim back within a second")
	case "recurring":
		upcoming = coming(fires(row, known.rule), known.rule, row.ScheduledAt, e.At)
	}
	if expires := expiry(row, e.Reason.Code); expires != nil {
		at(expires, inTime)
	}
	if known.parent != nil && row.FinishedAt != nil {
		for _, fire := range fires(*known.parent, known.rule) {
			at(&fire, "its recurring task "+known.parent.ID+" fires")
			break
		}
	}
	return inOrder(upcoming)
}

// inOrder sorts by time. Entries without a time come first.
func inOrder(upcoming []Upcoming) []Upcoming {
	slices.SortStableFunc(upcoming, func(a, b Upcoming) int {
		switch {
		case a.At == nil && b.At == nil:
			return 0
		case a.At == nil:
			return -1
		case b.At == nil:
			return 1
		}
		return a.At.Compare(*b.At)
	})
	return upcoming
}

// course returns what will happen to a task that waits for its time, or for the end of its own pause or of another
// pause. It announces no run that a pause, the expiry or a lack of nodes will prevent if nothing changes. If the task
// expires before it can run, course tells that in the reason, too.
func (e *Explanation) course(known life) (upcoming []Upcoming) {
	at := func(t *time.Time, text string) { upcoming = append(upcoming, Upcoming{t, text}) }
	row, code, free := *e.Row, e.Reason.Code, e.Row.NextAttemptAt
	if code == "paused" {
		free = e.resumed()
	}
	names, ends := known.pausedAt(free, e.At)
	scoped := len(names) > 0 || code == "paused_scope"
	runs, expires := free, expiry(row, code)
	if code == "paused_scope" {
		ends = e.Reason.Until // lifeOf does not read the pauses of a task without a history
	}
	if scoped {
		runs = ends
	}
	over := expires != nil && runs != nil && !expires.After(*runs)
	waits := ""
	switch {
	case len(names) > 0:
		waits = ", and waits while " + sequence(names) + " paused"
	case over:
		waits = ", and it becomes EXPIRED"
	}
	switch {
	case code == "paused":
		upcoming = e.whilePaused(waits)
	case code != "paused_scope":
		at(free, "it is due"+waits)
	case ends == nil:
		at(nil, e.onceResumed("it ", "when somebody resumes what is paused", false))
	}
	if scoped && ends != nil {
		at(ends, e.onceResumed("the pause ends, and it ", "", over))
	}
	switch {
	case over:
		at(expires, "it expires, unless it has been resumed and has started by then")
		e.Reason.Further = &Moment{"unless resumed in time, it expires before that, at", *expires}
		if code == "retry" && !scoped {
			upcoming[len(upcoming)-1].Text, e.Reason.Further.Text = "it expires", "it expires before that, at"
		}
	case expires != nil:
		at(expires, inTime)
	}
	return inOrder(upcoming)
}

// onceResumed returns what happens to the task when the last pause ends that keeps it from running.
func (e *Explanation) onceResumed(who, when string, over bool) string {
	runs := "runs"
	if e.Row.Cron != nil {
		runs = "fires"
	}
	switch {
	case over:
		return who + "becomes EXPIRED"
	case e.Reason.Missing != "" && when != "":
		return who + runs + " " + when + ", and such a node runs and a node leads"
	case e.Reason.Missing != "":
		return who + runs + " as soon as such a node runs and a node leads"
	case when != "":
		return who + runs + " " + when
	}
	return who + runs
}

// asked returns the time for which a task was scheduled, or was run now. Its jitter may add to that time.
func asked(r store.Row) time.Time {
	if r.RunNowAt != nil {
		return *r.RunNowAt
	}
	return r.ScheduledAt
}

// dueOncePaused returns the time of a paused task: that of its retry, or else that for which it was scheduled.
func (e *Explanation) dueOncePaused() time.Time {
	due := asked(*e.Row)
	if e.due != nil && (e.Row.Attempt > 0 || e.Row.Jitter == nil) && e.due.After(due) {
		return *e.due
	}
	return due
}

// resumed returns the time at which a paused task will be resumed and due. Nil means that this is when somebody
// resumes it.
func (e *Explanation) resumed() *time.Time {
	due, until := e.dueOncePaused(), e.Row.PausedUntil
	if until != nil && e.Row.Cron == nil && due.After(*until) {
		return &due
	}
	return until
}

// whilePaused returns what will happen to a task that is paused itself: its resume, and its time.
func (e *Explanation) whilePaused(waits string) (upcoming []Upcoming) {
	r, due := e.Row, e.dueOncePaused()
	ahead := due.After(e.At) && r.Cron == nil && r.Fence == nil
	before := r.PausedUntil == nil || due.Before(*r.PausedUntil)
	switch {
	case r.PausedUntil == nil:
		upcoming = append(upcoming, Upcoming{nil, "it waits until somebody resumes it"})
	case before && r.Cron == nil && r.Fence == nil:
		upcoming = append(upcoming, Upcoming{r.PausedUntil, "the leader resumes it" + waits})
	default:
		upcoming = append(upcoming, Upcoming{r.PausedUntil, "the leader resumes it"})
	}
	if !ahead {
		return upcoming
	}
	text := "it is due"
	if r.Jitter != nil && r.RunNowAt == nil && due.Equal(asked(*r)) {
		text += ", or up to " + rounded(*r.Jitter) + " later"
	}
	if before {
		return append(upcoming, Upcoming{&due, text + ", and waits until it is resumed"})
	}
	return append(upcoming, Upcoming{&due, text + waits})
}

// pausedAt returns the names of what will be paused at a time if nothing changes, and the end of the last of these
// pauses. A nil end means that somebody has to resume at least one of them.
func (l *life) pausedAt(at *time.Time, now time.Time) (names []string, ends *time.Time) {
	if at == nil {
		return nil, nil
	}
	indefinite := false
	for _, p := range l.pauses {
		switch {
		case p.EndsAt == nil:
			indefinite = true
		case !p.EndsAt.After(*at) || !p.EndsAt.After(now):
			continue
		case ends == nil || p.EndsAt.After(*ends):
			ends = p.EndsAt
		}
		names = append(names, p.what())
	}
	if indefinite {
		ends = nil
	}
	return names, ends
}

// sequence returns "a is", or "a, b and c are".
func sequence(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0] + " is"
	}
	return strings.Join(names[:last], ", ") + " and " + names[last] + " are"
}

// expiry returns the time at which a waiting task expires, at the latest at its deadline. Nil means that it never does,
// or that only the database knows the time. The latter is so for a task with jitter that has had an attempt.
func expiry(row store.Row, code string) *time.Time {
	if row.FinishedAt != nil || row.Fence != nil || row.Cron != nil || code == "expires" {
		return nil
	}
	if expires := expirationOf(row, code); expires != nil && (row.Deadline == nil || expires.Before(*row.Deadline)) {
		return expires
	}
	return row.Deadline
}

// expirationOf is expiry without the deadline.
func expirationOf(row store.Row, code string) *time.Time {
	if row.Expiration == nil {
		return nil
	}
	due := row.ScheduledAt
	switch {
	case row.RunNowAt != nil:
		due = *row.RunNowAt
	case row.Jitter == nil:
	// If it was due already when it was written, next_attempt_at may be later than that.
	case row.Attempt == 0 && row.NextAttemptAt != nil && code != "retry" &&
		!row.NextAttemptAt.After(due.Add(*row.Jitter)):
		due = *row.NextAttemptAt
	default:
		return nil
	}
	return new(due.Add(*row.Expiration))
}

// rests reports whether the leader has found that the task has no fire until its calendars change. It notes the time at
// which it looks again, and plans nothing.
func rests(row store.Row, now time.Time) bool {
	return row.Cron != nil && row.NextAttemptAt != nil && row.NextAttemptAt.After(now.Add(time.Hour)) &&
		(row.PlannedRevision == nil || *row.PlannedRevision != row.Revision)
}

// fires returns the next fires of a recurring task that goes on. The first is the one that the leader has planned,
// and that somebody may have moved by hand.
func fires(row store.Row, rule *recurrence.Rule) (next []time.Time) {
	planned := row.PlannedRevision != nil && *row.PlannedRevision == row.Revision
	if rule == nil || row.Status != store.StatusQueued || row.NextAttemptAt == nil || !planned {
		return nil
	}
	rule = rule.Anchored(row.ScheduledAt)
	for at := *row.NextAttemptAt; !at.IsZero() && len(next) < firesTold; at = rule.Next(at) {
		if row.EndsAt != nil && at.After(*row.EndsAt) {
			break
		}
		if row.MaxOccurrences != nil && row.OccurrenceCount+len(next) >= *row.MaxOccurrences {
			break
		}
		next = append(next, at)
	}
	return next
}
