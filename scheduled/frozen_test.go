//go:build unix

package scheduled

import (
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// The transactions of a frozen process's handlers end when its node is declared dead: the next attempts need the locks
// that they keep.
func TestFrozenNodeKeepsNoLocks(t *testing.T) {
	f := newField(t)
	open := f.shut(1)
	first := f.start(nil)
	list := []store.Task{{Payload: effectTx{"lock"}}, {Payload: effectSQL{"lock"}}}
	var ids []string
	for _, task := range list {
		id := enginetest.Schedule(t, f.pool, task).ID
		first.runs(id, patience)
		ids = append(ids, id)
	}
	second := f.start(nil)
	first.signal(syscall.SIGSTOP)
	for _, id := range ids {
		t.Logf("%s runs elsewhere %s later", id, second.runs(id, reclaimLimit+10*time.Second))
	}
	first.signal(syscall.SIGCONT)
	open()
	f.until(patience, "all are completed", completedSQL, len(ids))
	f.never("an effect is not the second process's", `SELECT count(*) FROM effects WHERE pid <> $1`, second.pid)
	if n := f.count(`SELECT count(*) FROM effects`); n != len(ids) {
		t.Errorf("%d effects of %d tasks", n, len(ids))
	}
}
