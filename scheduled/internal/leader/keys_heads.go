package leader

import (
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The leader keeps the time of the first task of each key. A look reads it again after a grant, after a peek that has
// found no task, and while another task of the group or tenant goes first (taskdb/inorder.go).

// probe has the look read the first task of a key.
func (k *laneKeys) probe(lane taskdb.LaneKey, one *laneKey) {
	if one == nil {
		return
	}
	head := taskdb.HeadOf{LaneAt: taskdb.LaneAt{LaneKey: lane, At: one.from()}}
	if lane.Counted() {
		head.InOrder = k.lanes[plainLane(lane)].order
	}
	k.probed = append(k.probed, head)
}

// probeHeld has the look read the first tasks of keys that are held up. If these are very many, it reads others each
// time, because a map has no order.
func (k *laneKeys) probeHeld() {
	for lane, one := range k.lanes {
		for key, known := range one.keys {
			if len(k.probed) >= 2*maxProbes {
				return
			}
			if known.held {
				lane.LimitKey = key
				k.probe(lane, known)
			}
		}
	}
}

// readHeads takes the first tasks of keys.
func (k *laneKeys) readHeads(heads []taskdb.HeadRead, now time.Time) {
	k.lost = k.lost[min(len(k.lost), maxProbes):]
	at := make(map[int]taskdb.HeadRead, len(heads))
	for _, row := range heads {
		at[row.Lane] = row
	}
	for i, lane := range k.probed {
		one := k.find(lane.LaneKey)
		if one == nil {
			continue
		}
		row := at[i]
		one.held, one.head = row.Held, time.Time{}
		if row.Head != nil {
			one.head = *row.Head
		}
		// A task that is due later is read when its time comes.
		if !row.Held && (row.Head == nil || one.head.After(now.Add(soon))) {
			delete(k.lanes[plainLane(lane.LaneKey)].keys, lane.LimitKey)
		}
	}
	// If others have locked the tasks of very many keys, the list does not become shorter.
	left := len(k.lost)
	k.more = k.more || left > 0 && (k.left == 0 || left < k.left)
	k.left = left
}

// peeked has the next look find out the first tasks of keys of which the leader has seen no task, because they are
// outdated. Otherwise such a key would stand before the tasks of other lanes for ever, if these run in order. atOnce
// says that the next pass follows at once.
func (k *laneKeys) peeked(peeks []taskdb.Peek, found [][]time.Duration, atOnce bool) {
	for i, peek := range peeks {
		if one := k.find(peek.Key()); peek.LimitKey != "" && len(found[i]) == 0 && one != nil && !one.head.IsZero() {
			one.head = time.Time{}
			k.lost = append(k.lost, peek.Key())
			k.more = k.more || atOnce
		}
	}
}

// release has the next look read the first tasks of a key that was held up in some lanes, because the task that went
// first is claimed.
func (k *laneKeys) release(key string) {
	for lane, one := range k.lanes {
		if known := one.keys[key]; known != nil && known.held {
			known.held, known.head, lane.LimitKey = false, time.Time{}, key
			k.lost = append(k.lost, lane)
		}
	}
}
