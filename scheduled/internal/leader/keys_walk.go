package leader

import (
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The walk reads some keys of each lane in each round (walk.go), so that the leader knows all of them after some
// rounds.

// unwalked reports whether the walk has not found all keys of some lane yet.
func (k *laneKeys) unwalked() bool {
	for _, one := range k.lanes {
		if one.rounds == 0 {
			return true
		}
	}
	return false
}

// passed lists where the walk goes on. If some lanes were not walked yet, it lists these alone.
func (k *laneKeys) passed() (lanes []taskdb.KeysFrom) {
	first := k.unwalked()
	for lane, one := range k.lanes {
		if first && one.rounds > 0 {
			continue
		}
		lanes = append(lanes, taskdb.KeysFrom{
			LaneAt: taskdb.LaneAt{LaneKey: lane, At: one.read.at}, Key: one.walked, Prefix: one.prefix,
		})
	}
	return lanes
}

// walked takes the result of a walk through some lanes.
func (k *laneKeys) walked(found []taskdb.KeysWalked, now time.Time) {
	for _, lane := range found {
		one := k.lanes[lane.LaneKey]
		if one == nil || one.prefix != lane.Prefix || one.walked != lane.Key { // it has become another lane meanwhile
			continue
		}
		if one.walked = ""; len(lane.Keys) >= taskdb.MaxKeysWalked {
			one.walked = lane.Keys[len(lane.Keys)-1].Key
		} else {
			one.rounds++
		}
		for _, task := range lane.Keys {
			if strings.HasPrefix(task.Key, one.prefix) && !task.First.After(now.Add(soon)) {
				k.learn(one, task.Key, task.First, now)
			}
		}
		switch at := lane.Unset; {
		case at == nil || !at.Before(one.read.at):
		case at.Equal(one.stuck): // otherwise looks would read all of the lane again and again
			one.unset = [2]time.Time{*at, *at}
		default: // the next look finds the task, and its key is set
			one.read, one.stuck = before(*at), *at
		}
	}
}
