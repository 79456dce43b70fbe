package notice_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

const (
	recoveredSQL = `SELECT split_part(c.notice_id, '/', 2) || ' ' || c.task_id || ': ' || c.detail
		FROM tasktable.notice_causes AS c WHERE c.event = 'recovered' ORDER BY c.number`
	episodesSQL = `SELECT e.event || ' ' || e.task_id FROM tasktable.notice_episodes AS e ORDER BY e.task_id, e.event`
)

// A dead letter that completes is told once, by the rules that told of its death and that have the event recovered.
func TestADeadLetterRecovers(t *testing.T) {
	t.Parallel()
	rule := rules.Rule{Events: []rules.Event{rules.Failed, rules.Expired, rules.Recovered}}
	b, r := benchWith(t, notice.KindNtfy, rule)
	b.rule(rules.Rule{Name: "deaths", Events: []rules.Event{rules.Failed, rules.Expired}}, "")
	b.rule(rules.Rule{Name: "other", Events: []rules.Event{rules.Failed, rules.Recovered}, Types: []string{"OTHER"}}, "")
	b.failing(nine, "again", "deleted", "mended", "twice", "untouched")
	b.schedule(store.Task{ID: "late", At: nine.Add(-time.Hour), Expiration: 10 * time.Minute, MaxAttempts: 1,
		Payload: store.JSON(`{"type": "FAILING"}`)})
	b.run(nine)
	b.want("episodes", b.rows(episodesSQL), "failed again", "failed deleted", "expired late", "failed mended",
		"failed twice", "failed untouched")
	b.watched(nine.Add(time.Minute))
	b.want("before a retry", b.rows(recoveredSQL))

	b.rows(`SELECT tasktable.delete('deleted')`)
	b.rows(`SELECT tasktable.retry('again')`)
	b.run(nine.Add(2 * time.Minute)) // it fails again
	b.rows(`SELECT tasktable.retry('late')`)
	b.run(nine.Add(3 * time.Minute)) // it fails now, so it is in two episodes
	b.rows(`SELECT tasktable.retry(id) FROM tasktable.scheduled_tasks WHERE id IN ('mended', 'twice', 'late')`)
	b.watched(nine.Add(4 * time.Minute))
	b.want("retried, and not completed", b.rows(recoveredSQL))
	b.error = nil
	b.run(nine.Add(5 * time.Minute))
	b.watched(nine.Add(5 * time.Minute))
	b.watched(nine.Add(6 * time.Minute))
	const nineOClock = " at 2035-05-01 09:00:00 UTC"
	completed := []string{"dead late: completed; had failed at 2035-05-01 09:03:00 UTC",
		"dead mended: completed; had failed" + nineOClock, "dead twice: completed; had failed" + nineOClock}
	b.want("completed", b.rows(recoveredSQL), completed...)
	b.want("episodes that stay", b.rows(episodesSQL), "failed again", "failed untouched")

	b.error = errors.New("out of ink")
	b.schedule(store.Task{ID: "twice", At: nine.Add(7 * time.Minute), MaxAttempts: 1,
		Payload: store.JSON(`{"type": "FAILING"}`)})
	b.run(nine.Add(7 * time.Minute))
	b.error = nil
	b.rows(`SELECT tasktable.retry('twice')`)
	b.run(nine.Add(8 * time.Minute))
	b.watched(nine.Add(8 * time.Minute))
	b.want("each death", b.rows(recoveredSQL), append(completed,
		"dead twice: completed; had failed at 2035-05-01 09:07:00 UTC")...)

	b.run(nine.Add(time.Hour))
	var told []string
	for _, one := range r.got() {
		if strings.Contains(one.body, "recovered") {
			told = append(told, one.header.Get("Title")+": "+one.body)
		}
	}
	if len(told) != 2 || !strings.HasPrefix(told[0], "Tasktable: late recovered, and 2 more: ") || !strings.Contains(told[0],
		"09:05:00 mended (FAILING) recovered: completed; had failed at 2035-05-01 09:00:00 UTC\ntasktable why mended\n") {
		t.Errorf("told %q", told)
	}
}

// A death whose task is gone is told, and opens nothing that could end.
func TestADeathWithoutATask(t *testing.T) {
	t.Parallel()
	b, _ := benchWith(t, notice.KindNtfy, rules.Rule{Events: []rules.Event{rules.Failed, rules.Recovered}})
	b.rows(dieSQL, "FAILED", nine, 2)
	b.want("notices", b.rows(noticesSQL), "notice/dead/ops/2035-05-01T09:01:00Z QUEUED 01 09:01:00 2")
	b.want("episodes", b.rows(episodesSQL))
}
