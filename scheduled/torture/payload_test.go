//go:build unix

package torture

import "github.com/tasktable/tasktable/store"

// chore is what a payload asks of its handler.
type chore struct {
	Do     string `json:"do"`
	Nonce  int64  `json:"n"`               // another with each schedule: its content differs
	Millis int    `json:"ms,omitempty"`    // how long it works
	Times  int    `json:"times,omitempty"` // how many attempts go wrong before one goes well
	Until  int64  `json:"until,omitempty"` // Unix milliseconds: until when it runs again, or is not ready
	Child  string `json:"child,omitempty"` // id of the follow-up
	Pad    string `json:"pad,omitempty"`   // makes it large
	Kids   int    `json:"kids,omitempty"`  // how many follow-ups it has besides, each with an id of this attempt's own
	Steps  int    `json:"steps,omitempty"` // how many generations of follow-ups its follow-ups have
	Linger int    `json:"stay,omitempty"`  // how many ms it stays after it has asked, unless its context ends
	Broken bool   `json:"bad,omitempty"`   // it asks, and goes wrong in the first Times attempts
}

// nonce is the payload's mark.
func (c chore) nonce() int64 { return c.Nonce }

// asked is what the payload asks for.
func (c chore) asked() chore { return c }

// The things to do. What goes wrong does so in the first Times attempts.
const (
	doWork      = "work"      // work, and mind the context
	doTell      = "tell"      // a note and a result
	doFail      = "fail"      // an error
	doPermanent = "permanent" // an error for good
	doAfter     = "after"     // an error that says when to come again
	doPanic     = "panic"
	doGoexit    = "goexit"
	doOverrun   = "overrun" // work until the context ends, then return its cause
	doDeaf      = "deaf"    // work on, whatever the context says
	doPoison    = "poison"  // text that no database takes, in errors, notes and results
	doSnooze    = "snooze"  // not ready until Until
	doAgain     = "again"   // run again until Until
	doFollow    = "follow"  // follow-ups
	doHog       = "hog"     // keep all connections of the handlers' pool
	doExtend    = "extend"  // work longer than the lease, and say so
)

// The variants. Their names are the lanes.
type (
	plain  struct{ chore } // an ordinary handler
	herd   struct{ chore } // many small ones
	rare   struct{ chore } // not every node has it
	tick   struct{ chore } // an occurrence of a recurring task
	inTx   struct{ chore } // a handler with a pgx transaction
	inSQL  struct{ chore } // one with database/sql's
	other  struct{ chore } // a node of another service has it
	nobody struct{ chore } // no node has it
)

// ourService is the service that most nodes belong to.
const ourService = "torture"

// ourTypes are its types.
var ourTypes = []string{"PLAIN", "HERD", "RARE", "TICK", "IN_TX", "IN_SQL", hookType}

func (plain) TaskType() string  { return "PLAIN" }
func (herd) TaskType() string   { return "HERD" }
func (rare) TaskType() string   { return "RARE" }
func (tick) TaskType() string   { return "TICK" }
func (inTx) TaskType() string   { return "IN_TX" }
func (inSQL) TaskType() string  { return "IN_SQL" }
func (other) TaskType() string  { return "OTHER" }
func (nobody) TaskType() string { return "NOBODY" }

// transactional says whether the handler of a type writes effects in the transaction that completes it.
func transactional(kind string) bool { return kind == inTx{}.TaskType() || kind == inSQL{}.TaskType() }

// payloadOf makes the payload of a type.
func payloadOf(kind string, c chore) store.Payload {
	switch kind {
	case herd{}.TaskType():
		return herd{c}
	case rare{}.TaskType():
		return rare{c}
	case tick{}.TaskType():
		return tick{c}
	case inTx{}.TaskType():
		return inTx{c}
	case inSQL{}.TaskType():
		return inSQL{c}
	case other{}.TaskType():
		return other{c}
	case nobody{}.TaskType():
		return nobody{c}
	}
	return plain{c}
}
