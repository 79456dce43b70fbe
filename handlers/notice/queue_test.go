package notice_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
)

// Notices are scheduled into the queue of the watch. Without a watch, it is the default queue.
func TestNoticesRunInTheQueueOfTheWatch(t *testing.T) {
	t.Parallel()
	b, _ := benchWith(t, notice.KindNtfy, rules.Rule{Digest: rules.AtOnce})
	b.die("one")
	watch := notice.Recurring()[0]
	b.schedule(watch)
	b.die("two")
	watch.Queue = "notices"
	b.schedule(watch)
	b.die("three")
	b.want("queues", b.rows(`SELECT c.task_id || ' ' || t.queue FROM tasktable.scheduled_tasks AS t
		JOIN tasktable.notice_causes AS c ON c.notice_id = t.id ORDER BY c.number`), "one default", "two default", "three notices")
	if ran := b.run(nine.Add(time.Minute)); len(ran) != 0 {
		t.Errorf("ran again: %+v", ran)
	}
}
