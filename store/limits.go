package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Limit bounds how many tasks of a scope run at once, or start in an interval, over all nodes. A task that a limit
// keeps from starting stays QUEUED, and starts when the limit lets it. If several limits have the task, all must let
// it. The leader counts a task from its claim until its outcome is recorded, or until the leader takes it back from a
// dead node.
type Limit struct {
	// Name identifies the limit. It is 1 to 64 of a-z, 0-9, inner - or _.
	Name string
	// Of says which tasks count: Everything, Queue or Type.
	Of Scope
	// Per makes MaxRunning a number of tasks of each group or tenant, so that 1 means one at a time for each. Rate and
	// Burst are then for each, too. Among the waiting tasks of a queue, type and priority, the group or tenant of which
	// the fewest run comes first, then the one that was served longest ago, unless Weights gives some more turns. With
	// Per alone they take turns, and nothing else is limited. Tasks without a group or tenant are not counted. If
	// MaxRunning is changed or Per is new, tasks that run already may be more. All limits that may count the same task
	// have the same Per, or none. "" means that all tasks count together.
	Per Per
	// InOrder has the tasks of a group or tenant run one after the other. The next one starts when the one before has
	// ended. So a task that is to be retried, or was put off, holds up the later ones. Of the tasks that are due, the
	// one of the highest priority starts first, then the one of the earliest time. InOrder needs Per, and MaxRunning is
	// 1 then. See scheduled/LIMITS.md.
	InOrder bool
	// MaxRunning is how many of the tasks may run at once, from 1 to 1,000,000. 0 means any number.
	MaxRunning int
	// Rate is how many of the tasks may start in each Interval, from 1 to 1,000,000. 0 means any number. A task counts
	// when it is claimed, which is when it is due and a slot is free.
	Rate int
	// Interval is from 1 second to 24 hours. 0 means 1 second.
	Interval time.Duration
	// Burst is how many tasks may start at once after a time in which none started, from 1 to 1,000,000, and what Rate
	// gives in ten years at most. In any time t the leader claims at most Burst tasks and those that Rate gives in t.
	// 0 means as many as Rate gives in a tenth of a second, and at least 1.
	Burst int
	// Weights needs Per. See there.
	Weights Weights
}

// Weights has the weights of groups or tenants, from 1 to 1,000. Others have weight 1. There are at most 1,000. While
// all have due tasks, one of weight 3 has three turns, and three times as many tasks that run, for each of another. A
// name has 1 to 512 bytes. If several limits give a group or tenant a weight, the largest holds.
type Weights map[string]int

// Scan reads weights from JSON, for database/sql.
func (w *Weights) Scan(from any) error {
	switch text := from.(type) {
	case string:
		return json.Unmarshal([]byte(text), w)
	case []byte:
		return json.Unmarshal(text, w)
	}
	*w = nil
	return nil
}

func (w Weights) check() error {
	if len(w) > maxWeights {
		return check.Invalid("weights", "must have at most 1000 entries", len(w))
	}
	for name, weight := range w {
		if err := check.Text("weights", name); err != nil || name == "" {
			return check.Invalid("weights", "must have names of 1 to 512 bytes without control characters",
				fmt.Sprintf("%.100q", name))
		}
		if weight < 1 || weight > maxWeight {
			return check.Invalid("weights", "must be between 1 and 1000", fmt.Sprintf("%.100q: %d", name, weight))
		}
	}
	return nil
}

// Per says whether a limit counts each group or each tenant by itself.
type Per string

// The values of Per.
const (
	PerGroup  Per = "group"  // Task.Group
	PerTenant Per = "tenant" // Task.TenantID
)

const (
	maxLimit         = 1_000_000
	minLimitInterval = time.Second
	maxLimitInterval = 24 * time.Hour
	maxBurstHours    = 87660
	maxWeight        = 1000
	maxWeights       = 1000
)

// Check returns the error, wrapping ErrInvalid, with which SetLimit would refuse the limit, or nil.
func (l Limit) Check() error {
	if err := checkSlug("name", l.Name); err != nil {
		return err
	}
	if err := l.Of.Check(); err != nil {
		return err
	}
	for _, one := range []struct {
		field string
		value int
	}{{"max_running", l.MaxRunning}, {"rate", l.Rate}, {"burst", l.Burst}} {
		if one.value < 0 || one.value > maxLimit {
			return check.Invalid(one.field, "must be between 1 and 1000000 (0: none)", one.value)
		}
	}
	switch {
	case l.Per != "" && l.Per != PerGroup && l.Per != PerTenant:
		return check.Invalid("per", "must be group or tenant", fmt.Sprintf("%.100q", l.Per))
	case len(l.Weights) > 0 && l.Per == "":
		return check.Invalid("weights", "must be given together with per", len(l.Weights))
	case l.InOrder && l.Per == "":
		return check.Invalid("in_order", "must be given together with per", true)
	case l.InOrder && l.MaxRunning > 1:
		return check.Invalid("max_running", "must be 1 with in_order", l.MaxRunning)
	case l.MaxRunning == 0 && l.Rate == 0 && l.Per == "":
		return check.Invalid("max_running", "or rate or per must be given", "none")
	case l.Rate == 0 && (l.Interval != 0 || l.Burst != 0):
		return check.Invalid("rate", "must be given if rate_interval or burst is", "none")
	case l.Rate > 0 && float64(l.Burst)*cmp.Or(l.Interval, minLimitInterval).Hours()/float64(l.Rate) > maxBurstHours:
		return check.Invalid("burst", "must be what the rate gives in at most 10 years", l.Burst)
	case l.Interval != 0 && (l.Interval < minLimitInterval || l.Interval > maxLimitInterval):
		return check.Invalid("rate_interval", "must be between 1s and 24h (0: 1s)", l.Interval)
	}
	return l.Weights.check()
}

const setLimitSQL = `
SELECT tasktable.set_limit(name => $1::text, max_running => $2::text::int, rate => $3::text::int,
    rate_interval => $4::text::interval, burst => $5::text::int, type => $6::text, queue => $7::text, by => $8::text,
    per => $9::text, in_order => $10::boolean, weights => $11::text::jsonb)`

// SetLimit creates the limit, or replaces the limit that has its name. The change holds from the leader's next pass, at
// most about a second after the commit. Tasks that run already go on. SetLimit returns Created, Changed or Unchanged.
// There are at most 1,000 limits. The error wraps ErrInvalid for a bad field. The role of an application must not call
// it, because a limit holds up other services, too.
func (s *Store) SetLimit(ctx context.Context, db DB, limit Limit) (Outcome, error) {
	if err := limit.Check(); err != nil {
		return "", fmt.Errorf("set limit: %w", err)
	}
	var interval, kind, queue, weights *string
	if len(limit.Weights) > 0 {
		text, err := json.Marshal(limit.Weights)
		if err != nil {
			return "", fmt.Errorf("set limit: %w", err)
		}
		weights = new(string(text))
	}
	if limit.Interval != 0 {
		interval = new(check.IntervalText(limit.Interval))
	}
	switch limit.Of.scope {
	case "type":
		kind = &limit.Of.name
	case "queue":
		queue = &limit.Of.name
	}
	outcome, err := query.Value[string](ctx, s.source, db, "set limit "+limit.Name, setLimitSQL, limit.Name,
		nonZero(limit.MaxRunning), nonZero(limit.Rate), interval, nonZero(limit.Burst), kind, queue, s.author(),
		check.OrNil(string(limit.Per)), limit.InOrder, weights)
	return Outcome(outcome), err
}

const removeLimitSQL = `SELECT tasktable.remove_limit($1::text)`

// RemoveLimit removes a limit. It returns Deleted, or Absent if there is no such limit.
func (s *Store) RemoveLimit(ctx context.Context, db DB, name string) (Outcome, error) {
	if err := checkSlug("name", name); err != nil {
		return "", fmt.Errorf("remove limit: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "remove limit "+name, removeLimitSQL, name)
	return Outcome(outcome), err
}

// LimitState is a limit as it is stored, and how far it is used. A nil pointer stands for null. Running is how many of
// the tasks run, or are about to. It is nil if MaxRunning is. With Per it is of the group or tenant of which most run.
type LimitState struct {
	Name         string         `json:"name"`
	Scope        string         `json:"scope"` // all, queue or type
	ScopeName    string         `json:"scope_name"`
	Per          *Per           `json:"per,omitempty"`
	InOrder      bool           `json:"in_order,omitempty"`
	MaxRunning   *int           `json:"max_running,omitempty"`
	Running      *int           `json:"running,omitempty"`
	Rate         *int           `json:"rate,omitempty"`
	RateInterval *time.Duration `json:"rate_interval,omitempty"` // nanoseconds in JSON
	Burst        *int           `json:"burst,omitempty"`
	Weights      Weights        `json:"weights,omitempty"`
	NextStartAt  *time.Time     `json:"next_start_at,omitempty"` // when the rate lets a task start; nil with Per

	// Waiting is how many due tasks the limit holds back now, and OldestDue is since when the first of them is due.
	// WaitingMore tells that there are perhaps more. Limits reads up to 10,000 due tasks, but of each queue, type and
	// priority 100 at least.
	Waiting     int        `json:"waiting,omitempty"`
	WaitingMore bool       `json:"waiting_more,omitempty"`
	OldestDue   *time.Time `json:"oldest_due,omitempty"`

	ChangedAt  time.Time `json:"changed_at"`
	ChangedBy  string    `json:"changed_by"`
	DeclaredBy *string   `json:"declared_by,omitempty"` // the service whose code declares it
}

// Of returns the tasks that count.
func (l LimitState) Of() Scope { return Scope{l.Scope, l.ScopeName} }

const listLimitsSQL = `
SELECT l.name, scope, scope_name, per, in_order, max_running, running, rate,
    (extract(epoch FROM rate_interval) * 1000000000)::bigint AS rate_interval, burst, weights::text AS weights,
    next_start_at, changed_at, changed_by, declared_by, coalesce(waiting, 0) AS waiting,
    coalesce(waiting_more, false) AS waiting_more, oldest_due_at AS oldest_due
FROM tasktable.limit_states() AS l LEFT JOIN tasktable.limit_waits(10000) AS w ON w.name = l.name
ORDER BY l.name COLLATE "C"`

// Limits lists the limits, sorted by name. It counts the tasks that run, so it needs the right to read River's jobs.
func (s *Store) Limits(ctx context.Context, db DB) ([]LimitState, error) {
	return query.Collect[LimitState](ctx, s.source, db, "list limits", listLimitsSQL)
}
