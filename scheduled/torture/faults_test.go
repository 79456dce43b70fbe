//go:build unix

package torture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// Kinds of faults.
const (
	faultKill      = "kill"       // kill -9, and another in its place
	faultStop      = "stop"       // a graceful stop, and another in its place
	faultFreeze    = "freeze"     // SIGSTOP, and SIGCONT up to three leases later
	faultQuiet     = "quiet"      // SIGTSTP, and SIGCONT some seconds later
	faultLeader    = "unseat"     // the leader's session is terminated, or the connection on which it works
	faultListener  = "deafen"     // the listeners' backends are terminated
	faultBackend   = "terminate"  // some backend is terminated
	faultCut       = "cut"        // all connections of a node are closed, and new ones refused
	faultHush      = "hush"       // nothing comes through, nothing is closed
	faultSlow      = "slow"       // latency
	faultNarrow    = "narrow"     // bandwidth
	faultPostgres  = "postgres"   // Postgres is stopped at once, and started again
	faultImpatient = "impatience" // new connections have a short statement_timeout
	faultPools     = "pools"      // nothing comes through to a node's pools, though its session is heard
	faultSnapshot  = "snapshot"   // a session keeps an old snapshot
	faultWriter    = "writer"     // one of the network's, to a writer
	faultServer    = "server"     // something to the HTTP API or its network: it concerns some writers alone
)

var allFaults = []weighted{
	{faultKill, 6}, {faultStop, 2}, {faultFreeze, 5}, {faultQuiet, 4}, {faultLeader, 3}, {faultListener, 2},
	{faultBackend, 5}, {faultCut, 4}, {faultHush, 4}, {faultSlow, 4}, {faultNarrow, 2}, {faultPostgres, 2},
	{faultImpatient, 2}, {faultPools, 3}, {faultSnapshot, 1}, {faultWriter, 4},
}

// begin notes that it begins now.
func (b *blow) begin() *fault { return b.timeline.begin(b.fault) }

func (b *blow) draw(below time.Duration) time.Duration {
	return time.Duration(b.random.Int64N(int64(below)))
}

// node does something to a node that nothing else is being done to.
func (b *blow) node(ctx context.Context) {
	if b.Kind == faultKill && b.random.IntN(2) == 0 && b.awaitTick(ctx) != nil {
		return
	}
	leader, _, _, _ := b.leading(ctx)
	s := b.take(leader)
	if s == nil {
		return
	}
	defer s.free()
	p := s.current()
	b.Target, b.PID, b.Leader, b.Headless = s.name, p.pid, leader == p.pid, leader == 0 || b.quietly(leader)
	switch b.Kind {
	case faultKill:
		made := b.begin()
		p.kill()
		b.timeline.end(made)
		_ = wait(ctx, b.draw(2*time.Second))
		b.must(b.startNode(s))
	case faultStop:
		made := b.begin()
		b.stopNode(p)
		b.timeline.end(made)
		b.must(b.startNode(s))
	case faultFreeze:
		made := b.begin()
		stopped := b.settings.Frozen
		if stopped == 0 {
			stopped = 500*time.Millisecond + b.draw(3*leaseTime)
		}
		p.freeze(ctx, stopped)
		b.timeline.end(made)
	case faultQuiet:
		b.silence(ctx, s, p)
	case faultCut:
		made := b.begin()
		s.wire.cut()
		s.pools.cut()
		_ = wait(ctx, b.draw(2500*time.Millisecond))
		b.must(s.wire.mend(b.address()))
		b.must(s.pools.mend(b.address()))
		b.timeline.end(made)
	case faultPools:
		b.silencePools(ctx, s)
	case faultHush, faultSlow, faultNarrow:
		b.worsen(ctx, s.wire, s.pools)
	}
}

// aroundTick is how far from a whole second a kill is that is to come about one.
const aroundTick = 50 * time.Millisecond

// awaitTick waits until just before or just after a whole second, at which recurring tasks fire: a leader that is killed
// then is about to make their occurrences, is making them, or has made them.
func (b *blow) awaitTick(ctx context.Context) error {
	tick := time.Now().Add(aroundTick).Truncate(time.Second).Add(time.Second)
	return wait(ctx, time.Until(tick)-aroundTick+b.draw(2*aroundTick))
}

// take reserves some node for the fault, or returns nil if each has another fault already. The first fault that is
// measured alone strikes the leader. Later ones strike it every other time, because else it would seldom be struck
// alone, and otherwise a node of the service that has most tasks.
func (b *blow) take(leader int) *slot {
	slots := slices.Clone(b.slots)
	b.random.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	if b.Alone {
		toLeader := b.toLeader || b.random.IntN(2) == 0
		rank := func(s *slot) int {
			switch {
			case toLeader && s.current().pid == leader:
				return 0
			case s.config.Service == ourService:
				return 1
			}
			return 2
		}
		slices.SortStableFunc(slots, func(a, b *slot) int { return cmp.Compare(rank(a), rank(b)) })
	}
	for _, s := range slots {
		if s.take() {
			return s
		}
	}
	return nil
}

// silence has a node start nothing new for a while. One that nothing is done to must be left, to whom the work goes.
func (b *blow) silence(ctx context.Context, s *slot, p *process) {
	for tries := 0; !slices.ContainsFunc(b.slots, func(other *slot) bool { return other.unharmed() }); tries++ {
		if tries == 30 || wait(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
	s.hold(true)
	defer s.hold(false)
	made := b.begin()
	p.signal(syscall.SIGTSTP)
	_ = wait(ctx, 500*time.Millisecond+b.draw(4*time.Second))
	p.signal(syscall.SIGCONT)
	b.timeline.end(made)
}

// quietly says whether the process that leads is about to lead no more, since it was made quiet.
func (r *harness) quietly(leader int) bool {
	return slices.ContainsFunc(r.slots, func(s *slot) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.quiet && s.process.pid == leader
	})
}

// worsen spoils wires for a while.
func (b *blow) worsen(ctx context.Context, wires ...*wire) {
	made := b.begin()
	long := 500*time.Millisecond + b.draw(4*time.Second)
	switch b.Kind {
	case faultHush:
		streams := [][]string{{"upstream", "downstream"}, {"upstream"}, {"downstream"}}[b.random.IntN(3)]
		b.each(wires, func(w *wire) error { return w.hush(streams...) })
		long += b.draw(4 * time.Second)
	case faultSlow:
		up, down, jitter := b.draw(300*time.Millisecond), b.draw(300*time.Millisecond), b.draw(100*time.Millisecond)
		b.each(wires, func(w *wire) error { return w.slow(up, down, jitter) })
	case faultNarrow:
		rate := int64(8 + b.random.IntN(64))
		b.each(wires, func(w *wire) error { return w.narrow(rate) })
	}
	_ = wait(ctx, long)
	b.each(wires, func(w *wire) error { w.calm(); return nil })
	b.timeline.end(made)
}

// each does something to some wires, which must not fail.
func (b *blow) each(wires []*wire, do func(w *wire) error) {
	for _, w := range wires {
		b.must(do(w))
	}
}

// writer does something to a writer's wire.
func (b *blow) writer(ctx context.Context) {
	w := b.wires[b.random.IntN(len(b.wires))]
	b.Target = w.name
	switch b.random.IntN(3) {
	case 0:
		b.Kind = faultCut
		made := b.begin()
		w.cut()
		_ = wait(ctx, b.draw(time.Second))
		b.must(w.mend(b.address()))
		b.timeline.end(made)
	case 1:
		b.Kind = faultHush
		b.worsen(ctx, w)
	default:
		b.Kind = faultSlow
		b.worsen(ctx, w)
	}
}

const (
	terminateListenerSQL = `
SELECT min(pid), bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tasktable listener'`
	terminateSomeSQL = `
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name <> 'torture' AND datname = current_database()
ORDER BY random() LIMIT 1`
)

// terminate ends a backend.
func (b *blow) terminate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	statement, args := terminateSomeSQL, []any(nil)
	pid, session, works, _ := b.leading(ctx)
	switch b.Kind {
	case faultLeader:
		if pid == 0 {
			return
		}
		b.PID, b.Leader = pid, true
		backend := session
		if works != 0 && b.random.IntN(3) == 0 {
			backend = works // the leader opens another connection
		}
		statement, args = "SELECT $1::int, pg_terminate_backend($1::int)", []any{backend}
	case faultListener:
		statement = terminateListenerSQL
	}
	b.Target, b.Headless = "a backend", pid == 0 || b.quietly(pid)
	made := b.begin()
	var struck int
	var done bool
	// Nothing to end, or Postgres is away: no harm is done.
	_ = b.admin.QueryRow(ctx, statement, args...).Scan(&struck, &done)
	if struck != 0 && (struck == session || struck == works) {
		b.timeline.mu.Lock()
		made.Leader, made.PID = true, pid
		b.timeline.mu.Unlock()
	}
	b.timeline.end(made)
}

// everybody does what concerns all.
func (b *blow) everybody(ctx context.Context) {
	if !b.all.TryLock() {
		return
	}
	defer b.all.Unlock()
	if b.Kind == faultPostgres {
		b.stopPostgres(ctx)
	} else {
		b.makeImpatient(ctx)
	}
}

// stopPostgres stops the server as a power cut would, and starts it again.
func (b *blow) stopPostgres(ctx context.Context) {
	b.Target = "postgres"
	made := b.begin()
	defer b.timeline.end(made)
	if err := b.cluster.stop(); err != nil {
		b.must(err)
		return
	}
	_ = wait(ctx, b.draw(1500*time.Millisecond))
	b.must(b.startPostgres())
}

// makeImpatient gives new connections a short statement_timeout, and sees to it that there are some.
// Afterwards those are ended.
func (b *blow) makeImpatient(ctx context.Context) {
	b.Target = "postgres"
	made := b.begin()
	defer b.timeline.end(made)
	timeout := 20 + b.random.IntN(100)
	b.try(fmt.Sprintf("ALTER DATABASE tasktable SET statement_timeout = %d", timeout))
	b.try(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tasktable engine'
		AND random() < 0.3`)
	_ = wait(ctx, time.Second+b.draw(3*time.Second))
	b.try("ALTER DATABASE tasktable RESET statement_timeout")
	b.try(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND application_name <> 'torture' AND backend_start >= $1`, made.From)
}

// try does it as soon as it can be done.
func (d *disturber) try(statement string, args ...any) {
	const again = 100 * time.Millisecond
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(again) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := d.admin.Exec(ctx, statement, args...)
		cancel()
		if err == nil {
			return
		}
	}
	d.must(fmt.Errorf("not done: %s", statement))
}
