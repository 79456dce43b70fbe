//go:build unix

package torture

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// disturber does things to the system.
type disturber struct {
	*harness
	random *rand.Rand
	deck   *deck
	wg     sync.WaitGroup
	all    sync.Mutex     // held by what concerns everybody: one at a time
	long   sync.WaitGroup // of those that last for minutes, beside all others

	snapshot sync.Mutex // held while a session keeps an old snapshot

	leaderNext bool // the fault that is measured alone next is to strike the leader
}

// blow is one fault. It decides by a source of its own, so that those beside it change nothing.
type blow struct {
	*disturber
	random   *rand.Rand
	toLeader bool
	fault
}

const (
	faultLeast, faultMost = 200 * time.Millisecond, 3 * time.Second
	stormFor              = 15 * time.Second
	aloneFor              = 8 * time.Second // long enough for a death to be noticed and dealt with
	// At the beginning: to see how quick everything is when nothing is done to it.
	calmFor = 8 * time.Second
)

// singles are the faults that are measured alone, one after the other. The first strikes the leader.
var singles = []string{faultKill, faultKill, faultLeader, faultKill, faultCut}

// disturb does something every now and then until ctx is done, and returns when all of it is over. Storms, in which
// anything may come on top of anything, take turns with single faults whose consequences can be measured: then only
// writers are disturbed besides. A run that has time for both begins with a calm and a single fault.
func (r *harness) disturb(ctx context.Context) {
	d := &disturber{harness: r, random: r.settings.random(1), deck: &deck{dice: newDice(allFaults, r.settings.Faults)}}
	defer d.long.Wait()
	defer d.wg.Wait()
	if d.deck.total == 0 {
		return
	}
	whole := r.settings.ordinary() && r.settings.Length >= time.Minute
	if whole && wait(ctx, calmFor) != nil {
		return
	}
	measured := r.settings.Alone || whole
	if whole { // what needs time comes first
		d.deck.left = []string{faultQuiet, faultFreeze, faultSnapshot}
	}
	for deal := 0; ; deal++ {
		until := time.Now().Add(stormFor)
		if r.settings.Alone || whole && deal == 0 {
			until = time.Now()
		}
		for !measured || time.Now().Before(until) {
			if d.pause(ctx) != nil {
				return
			}
			d.strike(ctx, d.deck.deal(d.random), false)
		}
		if d.alone(ctx, deal) != nil {
			return
		}
	}
}

// pause is the time between two faults.
func (d *disturber) pause(ctx context.Context) error {
	return wait(ctx, faultLeast+time.Duration(d.random.Int64N(int64(faultMost-faultLeast))))
}

// alone lets all faults end, does a single one, and waits until its consequences are over.
func (d *disturber) alone(ctx context.Context, deal int) error {
	d.wg.Wait()
	if deal > 0 || d.settings.Alone { // nodes that were struck last are to be back
		if err := wait(ctx, 3*time.Second); err != nil {
			return err
		}
	}
	kind := singles[deal%len(singles)]
	if d.settings.Faults != nil {
		kind = d.deck.deal(d.random)
	}
	d.leaderNext = deal == 0
	d.strike(ctx, kind, true)
	for until := time.Now().Add(aloneFor); time.Now().Before(until); {
		if err := d.pause(ctx); err != nil {
			return err
		}
		d.strike(ctx, faultWriter, false)
	}
	return nil
}

// strike does a fault, which may go on beside others.
func (d *disturber) strike(ctx context.Context, kind string, alone bool) {
	b := &blow{
		disturber: d, random: rand.New(rand.NewPCG(d.random.Uint64(), 0)), toLeader: alone && d.leaderNext,
		fault: fault{Kind: kind, Alone: alone},
	}
	if kind == faultSnapshot {
		d.long.Go(func() { b.keepSnapshot(ctx) })
		return
	}
	d.wg.Go(func() {
		switch kind {
		case faultPostgres, faultImpatient:
			b.everybody(ctx)
		case faultLeader, faultListener, faultBackend:
			b.terminate(ctx)
		case faultWriter:
			b.writer(ctx)
		default:
			b.node(ctx)
		}
	})
}
