package week

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Ids of single tasks, so that a person and the tests can ask about one of each kind.
const (
	poisonID   = "mail-with-markup"
	largeID    = "partner-catalogue"
	pausedTask = "announcement-draft"
	untilTask  = "announcement-tomorrow"
	retryTask  = "partner-invoice"
	longMailID = "task-SEND_EMAIL-lost"
	soonID     = "backup-soon"
)

// scenes are what happened once.
func (w *week) scenes() {
	w.newsletter()
	w.lost()
	w.interrupted()
	w.deadLetters()
	w.poison()
	w.paused()
	w.tooLate()
	w.deleted()
	w.large()
	w.soon()
}

// newsletter is a burst of mails in a minute, which the mail queue's slots work off one after another. A second one
// waits, because its queue is paused.
func (w *week) newsletter() {
	at := w.calendar.burst
	for i := range 1500 {
		t := w.insert(at.Add(time.Duration(i)*40*time.Millisecond), "schedule", accountsAPI, &task{
			id: fmt.Sprintf("task-SEND_EMAIL-summer-%04d", i), kind: "SEND_EMAIL", queue: mailQueue, priority: -20,
			scheduledAt: at.Add(time.Duration(i) * 40 * time.Millisecond), tenant: w.tenant(),
			payload: w.letter("The summer programme"),
		})
		// It comes each 40 ms, and goes each 75 ms.
		w.run(t, ending{lag: time.Duration(i) * 35 * time.Millisecond})
	}
	at = w.now.Add(-3 * time.Hour)
	for i := range 240 {
		w.insert(at.Add(time.Duration(i)*50*time.Millisecond), "schedule", accountsAPI, &task{
			id: fmt.Sprintf("task-SEND_EMAIL-autumn-%04d", i), kind: "SEND_EMAIL", queue: newsletterQueue,
			priority: -20, scheduledAt: at.Add(10 * time.Minute), tenant: w.tenant(),
			payload: w.letter("The autumn programme"),
		})
	}
}

func (w *week) letter(subject string) map[string]any {
	return map[string]any{
		"email": addressOf(w.member()), "subject": subject,
		"body": "Dear member,\n\nhere is " + strings.ToLower(subject) + ".\n",
	}
}

// lost are attempts of the node that died.
func (w *week) lost() {
	dead := w.killed()
	for i := range 12 {
		at := w.calendar.death.Add(-time.Duration(2+i) * time.Second)
		t := w.insert(at.Add(-time.Minute), "schedule", accountsAPI, &task{
			id: fmt.Sprintf("%s-%02d", longMailID, i), kind: "SEND_EMAIL", queue: mailQueue, scheduledAt: at,
			tenant: w.tenant(), payload: w.letter("A large attachment"),
		})
		w.attemptOn(dead, t, w.start(at), ending{took: time.Minute})
		w.run(t)
	}
}

// interrupted are attempts that the rolling update and the downtime ended. They use up no attempt.
func (w *week) interrupted() {
	for i := range 10 {
		end := w.nodes[i%4].end
		at := end.Add(-time.Duration(1+i) * time.Second)
		t := w.insert(at.Add(-time.Minute), "schedule", partnerKey, w.request(at, w.tenant()))
		w.attemptOn(w.nodes[i%4], t, w.start(at.Add(-6*time.Second)).Add(6*time.Second), ending{took: time.Minute})
		w.run(t)
	}
}

// deadLetters are tasks that failed for good, of a few errors. Operators have dealt with some.
func (w *week) deadLetters() {
	const refused = "the server refused the recipient: 550 5.1.1 no such user here"
	const panicked = "handler panicked: runtime error: index out of range [3] with length 3\n" +
		"goroutine 4711 [running]:\nexample.org/community/posts.(*Renderer).Excerpt(...)\n\tposts/renderer.go:118\n" +
		"example.org/community/posts.Publish(...)\n\tposts/publish.go:64"
	for i, at := range w.moments(18, w.from, w.now.Add(-2*time.Hour)) {
		t := w.insert(at, "schedule", accountsAPI, &task{
			id: w.newID(at), kind: "SEND_EMAIL", queue: mailQueue, scheduledAt: at, tenant: w.tenant(),
			payload: w.letter("Confirm your address"),
		})
		w.run(t, ending{outcome: "FAILED", err: refused})
		w.dealWith(t, i, "the address was mistyped")
	}
	for i, at := range w.moments(14, w.from, w.now.Add(-2*time.Hour)) {
		t := w.insert(at, "schedule", partnerKey, w.request(at, "film-nights"))
		w.run(t, ending{outcome: "FAILED", err: partnerGone})
		w.dealWith(t, i, "the partner has left")
	}
	for i, at := range w.moments(9, w.now.Add(-30*time.Hour), w.now.Add(-3*time.Hour)) {
		t := w.insert(at, "schedule", partnerKey, w.request(at, "chess-club"))
		again := ending{outcome: "RETRIED", err: partnerAway}
		w.run(t, again, again, again, again, ending{outcome: "FAILED", err: partnerAway})
		w.dealWith(t, i, "")
	}
	for i, at := range w.moments(4, w.from, w.calendar.rollout) {
		id := fmt.Sprintf("post-long-%d", i)
		t := w.insert(at.Add(-time.Hour), "schedule", eventsAPI, &task{
			id: "task-PUBLISH_SCHEDULED_POST-" + id, kind: "PUBLISH_SCHEDULED_POST", scheduledAt: at,
			tenant: "home-cooks", entity: "post:" + id, payload: map[string]any{"scheduled_post_id": id},
			maxAttempts: 2, priority: 10,
		})
		w.run(t, ending{outcome: "RETRIED", err: panicked}, ending{outcome: "FAILED", err: panicked})
		if t.status == store.StatusFailed { // and its node did not end
			w.retry(t, w.calendar.rollout.Add(3*time.Hour), ops) // 2.4.0 has mended it
			w.run(t)
		}
	}
}

// dealWith lets an operator archive one in four dead letters with a note, and retry another.
func (w *week) dealWith(t *task, i int, note string) {
	at := t.finishedAt.Add(w.between(20*time.Minute, 90*time.Minute))
	switch {
	case t.status != store.StatusFailed || !at.Before(w.until):
	case i%4 == 1 && note != "":
		w.archive(t, at, ops, note)
	case i%4 == 2:
		w.retry(t, at, ops)
		w.run(t)
	}
}

// poison is an error and a payload that would harm a page that does not escape them.
func (w *week) poison() {
	const markup = `<script>alert(1)</script>`
	line := "template: welcome.html:12: executing \"greeting\" at <.Name>: " + markup +
		` "><img src=x onerror=alert(2)> ${7*7} {{7*7}} '; DROP TABLE members; --` + "\n"
	at := w.now.Add(-5 * time.Hour)
	t := w.insert(at.Add(-time.Hour), "schedule", accountsAPI, &task{
		id: poisonID, kind: "SEND_EMAIL", queue: mailQueue, scheduledAt: at, tenant: "film-nights",
		entity: "member:" + markup,
		payload: map[string]any{
			"email": addressOf(memberID(7)), "subject": markup, "body": strings.Repeat(markup+" & more\n", 20),
		},
	})
	w.run(t, ending{outcome: "FAILED", err: "handler panicked: " + strings.Repeat(line, 40)})
}

// paused are two paused tasks, one that was resumed, and one that waits for its next attempt.
func (w *week) paused() {
	draft := func(id string, at time.Time) *task {
		return w.insert(w.now.Add(-26*time.Hour), "schedule", eventsAPI, &task{
			id: id, kind: "LOG", scheduledAt: at, tenant: "garden-friends", entity: "announcement:" + id,
			payload: map[string]any{"message": "announcement"},
		})
	}
	w.pause(draft(pausedTask, w.now.Add(-2*time.Hour)), w.now.Add(-24*time.Hour), ops, time.Time{})
	w.pause(draft(untilTask, w.now.Add(3*time.Hour)), w.now.Add(-4*time.Hour), eventsAPI, w.now.Add(21*time.Hour))
	resumed := draft("announcement-sent", w.now.Add(-10*time.Hour))
	w.pause(resumed, w.now.Add(-12*time.Hour), ops, time.Time{})
	w.resume(resumed, w.now.Add(-9*time.Hour), ops)
	w.run(resumed)
	at := w.now.Add(-25 * time.Minute)
	t := w.request(at, "book-club")
	t.id, t.maxAttempts = retryTask, 10
	away := ending{outcome: "RETRIED", err: partnerAway, wait: 5 * time.Minute}
	longer := away
	longer.wait = 2 * time.Hour
	w.run(w.insert(at, "schedule", partnerKey, t), away, away, longer)
}

// tooLate are reminders that expired in the downtime.
func (w *week) tooLate() {
	for i := range 14 {
		at, id := w.calendar.down.Add(time.Duration(i)*time.Minute), fmt.Sprintf("8%03d", i)
		w.run(w.insert(at.Add(-5*time.Hour), "sync", eventsAPI, &task{
			id: "task-SEND_EVENT_REMINDER-" + id, kind: "SEND_EVENT_REMINDER", payload: map[string]any{"event_id": id},
			entity: "event:" + id, tenant: w.tenant(), scheduledAt: at, expiration: 15 * time.Minute,
		}))
	}
}

// deleted are tasks of which only the history is left.
func (w *week) deleted() {
	for i, at := range w.moments(15, w.from, w.now.Add(-6*time.Hour)) {
		id := fmt.Sprintf("9%03d", i)
		t := w.insert(at, "sync", eventsAPI, &task{
			id: "task-SEND_EVENT_REMINDER-" + id, kind: "SEND_EVENT_REMINDER", payload: map[string]any{"event_id": id},
			entity: "event:" + id, tenant: w.tenant(), scheduledAt: at.Add(30 * time.Hour), expiration: time.Hour,
		})
		w.remove(t, at.Add(w.between(time.Minute, 5*time.Hour)), ops)
	}
}

// soon are tasks of the first minutes after the week, so that live nodes have something to do at once.
func (w *week) soon() {
	for i := range 40 {
		at := w.now.Add(time.Duration(i) * 5 * time.Second)
		w.insert(w.now.Add(-time.Hour), "schedule", ops, &task{
			id: fmt.Sprintf("%s-%02d", soonID, i), kind: "LOG", scheduledAt: at, tenant: w.tenant(),
			payload: map[string]any{"message": "a part of the backup is due"},
		})
	}
}

// large has a payload of some 60 KB.
func (w *week) large() {
	at := w.now.Add(-7 * time.Hour)
	t := w.request(at, "home-cooks")
	t.id = largeID
	var items []any
	for i := range 600 {
		items = append(items, map[string]any{
			"number": i, "name": fmt.Sprintf("recipe %d", i), "tags": []string{"vegetarian", "quick", "for four"},
			"price": float64(i%40) + 0.5,
		})
	}
	t.payload["body"] = map[string]any{"catalogue": items}
	w.run(w.insert(at, "schedule", partnerKey, t), ending{result: map[string]any{"status": 202}})
}
