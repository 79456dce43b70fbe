package leader

import "time"

const (
	// MaxFailing is how long all passes of a leader may fail before it lets another node lead. The cause may be with
	// this node alone. An example is a connection that carries pings but nothing larger.
	MaxFailing = 10 * time.Second
	// RestFor is how long it then does not try to lead. If no other node leads by then, it leads again.
	RestFor = 5 * time.Second
)

// progress records whether a leader's passes succeed.
type progress struct {
	failingSince time.Time // zero: the last one succeeded
	restsUntil   time.Time
}

// note records whether a pass succeeded.
func (p *progress) note(ok bool) {
	switch {
	case ok:
		p.failingSince = time.Time{}
	case p.failingSince.IsZero():
		p.failingSince = time.Now()
	}
}

// none reports whether all passes have failed for too long. It returns true once, and then the leader rests.
func (p *progress) none() bool {
	if p.failingSince.IsZero() || time.Since(p.failingSince) < MaxFailing {
		return false
	}
	p.failingSince, p.restsUntil = time.Time{}, time.Now().Add(RestFor)
	return true
}

// rests reports whether this node must let another node lead.
func (p *progress) rests() bool { return time.Now().Before(p.restsUntil) }
