package scheduled

import "time"

const (
	// A leader whose passes have all failed for so long lets another lead: what keeps it from claiming may be its own, such as a
	// connection that carries pings but nothing larger.
	failingMost = 10 * time.Second
	// So long it does not try to lead again. If nobody else does, it does then.
	restFor = 5 * time.Second
)

// progress is how a leader's passes fare.
type progress struct {
	failingSince time.Time // zero: the last one succeeded
	restsUntil   time.Time
}

// note takes whether a pass got on.
func (p *progress) note(ok bool) {
	switch {
	case ok:
		p.failingSince = time.Time{}
	case p.failingSince.IsZero():
		p.failingSince = time.Now()
	}
}

// none says that no pass has got on for too long. It says so once, and lets the leader rest.
func (p *progress) none() bool {
	if p.failingSince.IsZero() || time.Since(p.failingSince) < failingMost {
		return false
	}
	p.failingSince, p.restsUntil = time.Time{}, time.Now().Add(restFor)
	return true
}

// rests says that another is to lead.
func (p *progress) rests() bool { return time.Now().Before(p.restsUntil) }
