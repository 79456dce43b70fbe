//go:build unix

package torture

import (
	"slices"
	"testing"
	"time"
)

// oracleCase is a history, with the checks that must refuse it. If there are none, all must accept it.
type oracleCase struct {
	name   string
	wrong  []string
	recurs string // a recurring task, which is scheduled before the steps and cancelled after them; "": none
	steps  func(t *script)
	spoils func(h *history) // after its end
}

// history makes the case's.
func (c oracleCase) history() *history {
	t := newScript()
	if c.recurs != "" {
		t.recurs(c.recurs)
	}
	c.steps(t)
	if c.recurs != "" {
		t.cancel(c.recurs)
	}
	h := t.end()
	if c.spoils != nil {
		c.spoils(h)
	}
	return h
}

// whenRan are the steps of a case about a task that has run. Something is wrong with the evidence.
func whenRan(spoil func(t *script)) func(t *script) {
	return func(t *script) {
		t.ran("a")
		spoil(t)
	}
}

// TestOracle feeds each check with histories that it must refuse and such that it must accept.
func TestOracle(t *testing.T) {
	t.Parallel()
	refusedBy := map[string]bool{}
	cases := slices.Concat(startCases, quietCases, settleCases, contentCases, waitCases, rowCases, claimCases,
		fireCases, timeCases, callCases, hookCases, againCases, followCases, fenceCases, urgencyCases, slotCases, groupCases)
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			for _, found := range judge(one.history()) {
				switch refuses := slices.Contains(one.wrong, found.name); {
				case refuses && len(found.wrong) == 0:
					t.Errorf("%s accepts it", found.name)
				case refuses && found.samples == 0:
					t.Errorf("%s refuses it and counts no sample", found.name)
				case !refuses && len(found.wrong) > 0:
					t.Errorf("%s refuses it: %v", found.name, found.wrong)
				}
			}
			for _, name := range one.wrong {
				refusedBy[name] = true
			}
		})
	}
	for _, c := range checks {
		if !refusedBy[c.name] {
			t.Errorf("there is no history that %q must refuse", c.name)
		}
	}
}

// startCases are about when handlers may be called.
var startCases = []oracleCase{
	{name: "a task runs", steps: func(t *script) { t.ran("a") }},
	{name: "a claim is run twice", wrong: []string{"claimed start", "overlap"}, steps: func(t *script) {
		fence := t.begins("a")
		t.carriesOut(fence)
	}},
	{name: "an attempt is run as another", wrong: []string{"claimed start"},
		steps: whenRan(func(t *script) { t.Runs[0].Attempt++ })},
	{name: "it starts a millisecond early", wrong: []string{"early start"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.FirstDue = t.now.Add(time.Second); a.Asked = a.FirstDue })
		t.passes(time.Second - 8*time.Millisecond)
		t.runs("a")
	}},
	{name: "claimed ahead, it starts on time", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.FirstDue = t.now.Add(time.Second); a.Asked = a.FirstDue })
		fence := t.claim("a")
		t.passes(time.Second)
		t.carriesOut(fence)
	}},
	{name: "its gate was early, its call was not", wrong: []string{"early start"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.FirstDue = t.now.Add(time.Second); a.Asked = a.FirstDue })
		fence := t.claim("a")
		t.passes(time.Second)
		t.starts(fence).Gate = t.now.Add(-100 * time.Millisecond)
		t.finishes(fence)
	}},
	{name: "it starts before the time that the writer asked for", wrong: []string{"early start"},
		steps: whenRan(func(t *script) { t.Entries[0].Deeds[0].Due = t.now.Add(time.Hour) })},
	{name: "it starts when it has expired", wrong: []string{"late start"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Expires = new(a.FirstDue.Add(50 * time.Millisecond)) })
		fence := t.claim("a")
		t.passes(60 * time.Millisecond)
		t.carriesOut(fence)
	}},
	{name: "it passes the gate in time, and is called in time", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Expires = new(a.FirstDue.Add(50 * time.Millisecond)) })
		fence := t.claim("a")
		t.passes(60 * time.Millisecond)
		t.starts(fence).Gate = t.now.Add(-30 * time.Millisecond)
		t.finishes(fence)
	}},
	{name: "it starts after an acknowledged cancel", wrong: []string{"stale start"}, steps: func(t *script) {
		fence := t.takes("a")
		t.cancel("a")
		t.starts(fence)
		t.endsAs(fence, "ok", "SUPERSEDED")
	}},
	{name: "the cancel is acknowledged after the gate", steps: func(t *script) {
		fence := t.begins("a")
		t.cancel("a")
		t.endsAs(fence, "error", "SUPERSEDED")
	}},
	{name: "a cancelled task's handler goes on", wrong: []string{"cancel"}, steps: func(t *script) {
		cancelledWhile(t,
			cancelledWithin)
	}},
	{
		name:  "a cancelled task's handler ends soon",
		steps: func(t *script) { cancelledWhile(t, cancelledWithin-20*time.Millisecond) },
	},
	{name: "a cancelled task's handler goes on, and its context has ended", steps: func(t *script) {
		cancelledWhile(t, time.Hour)
		t.Runs[0].End.Ended = t.Runs[0].At.Add(time.Second)
	}},
	{name: "nobody knows whether the cancel was committed before the gate", steps: func(t *script) {
		fence := t.takes("a")
		t.cancel("a")
		t.Entries[1].Answer = unknown
		t.starts(fence)
		t.endsAs(fence, "ok", "SUPERSEDED")
	}},
	{name: "it starts while everything is paused", wrong: []string{"paused start"}, steps: func(t *script) {
		fence := t.takes("a")
		t.Pauses = []pauseEntry{{Asked: t.now, Held: t.now.Add(time.Millisecond)}}
		t.passes(2 * time.Millisecond)
		t.carriesOut(fence)
	}},
	{name: "another type is paused, and its own is about to be resumed", steps: func(t *script) {
		t.schedule("a", nil)
		t.Pauses = []pauseEntry{{Type: "RARE", Asked: t.now, Held: t.now}, {Type: "PLAIN", Asked: t.now, Held: t.now,
			Resuming: t.now.Add(time.Nanosecond)}}
		t.runs("a")
	}},
	{name: "the pause may not hold yet", steps: func(t *script) {
		t.schedule("a", nil)
		t.Pauses = []pauseEntry{{Asked: t.now}}
		t.runs("a")
	}},
	{name: "it is called long after its gate", wrong: []string{"call after the gate"}, steps: func(t *script) {
		fence := t.takes("a")
		t.passes(time.Second)
		t.starts(fence).Gate = t.now.Add(-callWithin - unseenStall - time.Millisecond)
		t.finishes(fence)
	}},
	{name: "it is called long after its gate, because the process was frozen", steps: func(t *script) {
		fence := t.takes("a")
		t.passes(time.Second)
		t.starts(fence).Gate = t.now.Add(-900 * time.Millisecond)
		t.Stalls = []span{{scriptProcess, t.now.Add(-800 * time.Millisecond), t.now.Add(-10 * time.Millisecond)}}
		t.finishes(fence)
	}},
}

// cancelledWhile has a task cancelled while its handler runs, which goes on for so long.
func cancelledWhile(t *script, long time.Duration) {
	fence := t.begins("a")
	t.cancel("a")
	t.passes(long)
	t.endsAs(fence, "error", "SUPERSEDED")
}

// lostWhile has a task lost while its handler runs, and run again elsewhere.
func lostWhile(t *script, first func(r *run)) {
	one := t.takes("a")
	t.starts(one)
	t.passes(5 * time.Second)
	t.settle(one, "LOST")
	two := t.claim("a")
	t.starts(two).PID++
	first(t.Runs[0])
	t.finishes(two)
}

// timeCases are about what runs at one time, and how long things take.
var timeCases = []oracleCase{
	{name: "it runs twice at once", wrong: []string{"overlap"}, steps: func(t *script) { lostWhile(t, func(*run) {}) }},
	{name: "it had ended when it ran again", steps: func(t *script) {
		lostWhile(t, func(r *run) { r.Latest = r.At.Add(time.Second); r.End = &mark{At: r.Latest, How: "error"} })
	}},
	{
		name:  "its process was killed",
		steps: func(t *script) { lostWhile(t, func(r *run) { r.Latest = r.At.Add(time.Second) }) },
	},
	{name: "its process was frozen, and it ended soon afterwards", steps: func(t *script) {
		lostWhile(t, func(r *run) {
			thaw := t.now.Add(3 * time.Second)
			t.Faults = append(t.Faults, fault{
				Kind: faultFreeze, Target: "node-1", PID: r.PID, From: r.At.Add(time.Second), To: thaw,
			})
			r.Latest = thaw.Add(looksWithin - time.Millisecond)
			r.End = &mark{At: r.Latest, How: "error"}
		})
	}},
	{name: "its process was frozen, and it went on long afterwards", wrong: []string{"overlap"}, steps: func(t *script) {
		lostWhile(t, func(r *run) {
			thaw := t.now.Add(3 * time.Second)
			t.Faults = append(t.Faults, fault{
				Kind: faultFreeze, Target: "node-1", PID: r.PID, From: r.At.Add(time.Second), To: thaw,
			})
			r.Latest = thaw.Add(looksWithin + time.Millisecond)
			r.End = &mark{At: r.Latest, How: "error"}
		})
	}},
	{name: "it did not mind the end of its context", steps: func(t *script) {
		lostWhile(t, func(r *run) {
			r.Deaf, r.Latest = true, t.now.Add(time.Second)
			r.End = &mark{At: r.Latest, How: "ok", Ended: r.At.Add(3 * time.Second)}
		})
	}},
	{name: "it would not mind its context, which had not ended", wrong: []string{"overlap"}, steps: func(t *script) {
		lostWhile(t, func(r *run) {
			r.Deaf, r.Latest = true, t.now.Add(time.Second)
			r.End = &mark{At: r.Latest, How: "ok"}
		})
	}},
	{name: "nothing is claimed for long", wrong: []string{"gap", "start latency"}, steps: func(t *script) { waitLong(t) }},
	{name: "nothing is claimed for long, by a slow pass", wrong: []string{"gap", "start latency"}, steps: func(t *script) {
		waitLong(t)
		t.claimed(4).Began = t.claimed(4).At.Add(-50 * time.Millisecond)
	}},
	{name: "nothing is claimed for long, since Postgres is away", steps: func(t *script) {
		t.Faults = []fault{{
			Kind: faultPostgres, Target: "postgres", From: t.now.Add(time.Second), To: t.now.Add(9 * time.Second),
		}}
		waitLong(t)
	}},
	{
		name: "another node is killed, which explains nothing", wrong: []string{"gap", "start latency"},
		steps: func(t *script) {
			t.Faults = []fault{{Kind: faultKill, Target: "node-2", PID: 9, From: t.now.Add(9 * time.Second),
				To: t.now.Add(9 * time.Second)}}
			waitLong(t)
		},
	},
	{name: "nothing is claimed for long, since all is paused", steps: func(t *script) {
		t.Pauses = []pauseEntry{
			{Asked: t.now, Held: t.now.Add(100 * time.Millisecond), Resuming: t.now.Add(9 * time.Second),
				Over: t.now.Add(9 * time.Second)},
		}
		waitLong(t)
	}},
	{name: "a dead node's task comes back late", wrong: []string{"recovery"}, steps: func(t *script) {
		killed(t, recoveryLimit+time.Second)
	}},
	{
		name: "a dead node's task does not come back", wrong: []string{"recovery", "residue", "lost"},
		steps: func(t *script) {
			t.schedule("a", nil)
			t.starts(t.claim("a"))
			t.passes(time.Millisecond)
			t.Faults = []fault{{Kind: faultKill, Target: "node-1", PID: scriptProcess, From: t.now, To: t.now}}
			t.passes(recoveryLimit)
		},
	},
	{name: "a dead node's task comes back in time", steps: func(t *script) { killed(t, recoveryLimit-time.Second) }},
	{name: "a dead node's task comes back late, since a writer had locked it", steps: func(t *script) {
		killed(t, recoveryLimit+time.Second)
		t.Entries = append(t.Entries, &entry{
			Op: 99, Began: t.Faults[0].From.Add(recoveryLimit - time.Second), Ended: t.now, Answer: refused,
			IDs: []string{"a"},
		})
	}},
	{name: "a dead node's task comes back late, since Postgres was away, too", steps: func(t *script) {
		killed(t, recoveryLimit+time.Second)
		t.Faults = append(t.Faults, fault{Kind: faultPostgres, Target: "postgres", From: t.Faults[0].From, To: t.now})
	}},
	{
		name: "another leads late", wrong: []string{"failover"},
		steps: func(t *script) { unseated(t, failoverLimit+time.Second) },
	},
	{name: "another leads in time", steps: func(t *script) { unseated(t, failoverLimit-time.Second) }},
	{
		name: "a hold, a job, a session and a goroutine are left", wrong: []string{"residue", "lost"},
		steps: func(t *script) {
			t.schedule("a", nil)
			t.claim("a")
			t.Jobs, t.Sessions, t.Wrong = []string{"running"}, []string{"idle"}, []string{"leaked"}
		},
	},
	{name: "it does not come to an end", wrong: []string{"residue"},
		steps: func(t *script) { t.ran("a") }, spoils: func(h *history) { h.Quiet = time.Time{} }},
}

// waitLong has a task wait for ten seconds after another was claimed.
func waitLong(t *script) {
	t.ran("a")
	t.schedule("b", nil)
	t.passes(10 * time.Second)
	t.runs("b")
}

// killed has the node that runs a task killed, and the task free again so much later.
func killed(t *script, took time.Duration) {
	fence := t.takes("a")
	t.starts(fence).Latest = t.now.Add(time.Millisecond)
	t.passes(time.Millisecond)
	t.Faults = []fault{{Kind: faultKill, Target: "node-1", PID: scriptProcess, From: t.now, To: t.now}}
	t.passes(took)
	t.settle(fence, "LOST")
	again := t.claim("a")
	t.starts(again).PID++
	t.finishes(again)
}

// unseated has the leader lost, and another claim so much later.
func unseated(t *script, took time.Duration) {
	t.ran("a")
	t.Faults = []fault{{Kind: faultLeader, Target: "a backend", PID: scriptProcess, Leader: true, From: t.now, To: t.now}}
	t.schedule("b", nil)
	t.passes(took)
	t.runs("b")
	for _, a := range t.Audit {
		if a.ID == "b" && a.claims() {
			a.Backend++
		}
	}
}
