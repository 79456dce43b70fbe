package week

import (
	"fmt"
	"time"
)

// The services and people that schedule and change tasks.
const (
	eventsAPI   = "events-api"
	accountsAPI = "accounts-api"
	partnerKey  = "partner-sync" // a key of the HTTP API
	ops         = "ops"
)

// The queues besides the default one.
const (
	mailQueue       = "mail"
	webhookQueue    = "webhooks"
	newsletterQueue = "newsletter"
)

// Queues returns the queues of the week's tasks, besides the default one, with the slots that suit them.
func Queues() map[string]int {
	return map[string]int{mailQueue: 4, webhookQueue: 4, newsletterQueue: 2}
}

// usual writes the everyday tasks: past ones, and those of the next days.
func (w *week) usual() {
	soon, last := w.now.Add(quietStart), w.now.Add(72*time.Hour)
	for i, at := range append(w.moments(3200, w.from, w.now.Add(-quietEnd)), w.moments(280, soon, last)...) {
		w.reminder(i, at)
	}
	for i, at := range append(w.moments(650, w.from, w.until), w.moments(60, soon, last)...) {
		w.post(i, at)
	}
	for _, at := range append(w.moments(2300, w.from, w.until), w.moments(150, soon, last)...) {
		w.mail(at)
	}
	for i, at := range w.moments(750, w.from, w.until) {
		w.welcome(i, at)
	}
	for _, at := range append(w.moments(1500, w.from, w.until), w.moments(80, soon, last)...) {
		w.webhook(at)
	}
	for _, at := range append(w.moments(120, w.from, w.until), w.moments(40, soon, last)...) {
		tenant := w.tenant()
		w.run(w.insert(w.earlier(at, time.Minute, 5*time.Hour), "schedule", ops, &task{
			id: w.newID(at), kind: "LOG", scheduledAt: at, priority: -10, tenant: tenant,
			payload: map[string]any{"message": "the backup of " + tenant + " is due"},
		}))
	}
}

// No reminder is due in quietEnd before the end of the week, nor in quietStart after it. The demo's script compares the
// waiting reminders with the events in the meantime.
const (
	quietEnd   = 5 * time.Minute
	quietStart = 2 * time.Minute
)

// outsideQuiet is a time, or a later one if no reminder is due then.
func (w *week) outsideQuiet(at time.Time) time.Time {
	if at.After(w.now.Add(-quietEnd)) && at.Before(w.now.Add(quietStart)) {
		return at.Add(quietEnd + quietStart)
	}
	return at
}

// reminder is the reminder of an event, at a time.
func (w *week) reminder(i int, at time.Time) {
	before, id := time.Hour, fmt.Sprintf("%04d", 1000+i)
	if w.chance(15) {
		before = 15 * time.Minute
	}
	tenant := w.tenant()
	created := w.earlier(at, 2*time.Hour, 60*time.Hour)
	t := w.insert(created, "sync", eventsAPI, &task{
		id: "task-SEND_EVENT_REMINDER-" + id, kind: "SEND_EVENT_REMINDER", payload: map[string]any{"event_id": id},
		entity: "event:" + id, tenant: tenant, scheduledAt: at, expiration: before,
	})
	edit := created.Add(w.between(time.Minute, at.Sub(created)/2))
	switch number := w.random.IntN(100); {
	case !edit.Before(w.until): // nobody has changed it yet
	case number < 7:
		later := 5*time.Minute + w.between(0, 2*time.Hour).Truncate(5*time.Minute)
		w.move(t, edit, eventsAPI, w.outsideQuiet(at.Add(later)))
	case number < 10:
		w.cancel(t, edit, "sync", eventsAPI)
		return
	case number < 11 && at.Before(w.now.Add(-2*time.Hour)):
		w.supersede(t, 3*time.Second, eventsAPI, at.Add(time.Hour))
	}
	if t.scheduledAt.After(w.until) {
		w.events = append(w.events, event{id, t, before})
		return
	}
	reminded := ending{result: map[string]any{
		"members": 5 + w.random.IntN(60), "occurrence_at": timeJSON(t.scheduledAt.Add(before)),
	}}
	switch number := w.random.IntN(100); {
	case number < 2: // the event is not published yet
		w.run(t, ending{outcome: "SNOOZED", wait: time.Minute}, ending{outcome: "SNOOZED", wait: time.Minute}, reminded)
	case number < 3:
		w.run(t, ending{note: fmt.Sprintf("event %s is gone: nobody was reminded", id)})
	default:
		w.run(t, reminded)
	}
}

// earlier is when a task of a time was scheduled. It is before the week's end.
func (w *week) earlier(at time.Time, least, most time.Duration) time.Time {
	created := at.Add(-w.between(least, most))
	if latest := w.until.Add(-w.between(time.Minute, 20*time.Hour)); created.After(latest) {
		created = latest
	}
	return created
}

func (w *week) post(i int, at time.Time) {
	id := fmt.Sprintf("post-%04d", i)
	t := w.insert(w.earlier(at, 10*time.Minute, 30*time.Hour), "schedule", eventsAPI, &task{
		id: "task-PUBLISH_SCHEDULED_POST-" + id, kind: "PUBLISH_SCHEDULED_POST",
		payload: map[string]any{"scheduled_post_id": id}, entity: "post:" + id, tenant: w.tenant(), scheduledAt: at,
		priority: 10,
	})
	if at.After(w.until) {
		w.posts = append(w.posts, t)
	}
	w.run(t)
}

var subjects = []string{
	"Your password was changed", "Somebody replied to you", "A new event near you", "Your weekly summary",
	"Confirm your address", "You were mentioned", "Your ticket",
}

const mailBusy = "451 4.3.2 the mail server is not accepting messages just now"

func (w *week) mail(at time.Time) {
	member := w.member()
	t := w.insert(w.earlier(at, time.Millisecond, time.Hour), "schedule", accountsAPI, &task{
		id: w.newID(at), kind: "SEND_EMAIL", queue: mailQueue, scheduledAt: at, tenant: w.tenant(),
		entity: "member:" + member, expiration: 24 * time.Hour,
		payload: map[string]any{
			"email": addressOf(member), "subject": subjects[w.random.IntN(len(subjects))],
			"body": "Hello,\n\nsomething happened in your community. Have a look when you have time.\n",
		},
	})
	if w.chance(10) {
		t.priority = 50 // a password, which somebody waits for
	}
	w.run(t, w.mailFaults(at)...)
}

// mailFaults are the retries of a mail. In one hour of the week there are many.
func (w *week) mailFaults(at time.Time) (faults []ending) {
	percent := 2
	if !at.Before(w.calendar.mailThrows) && at.Before(w.calendar.mailThrows.Add(time.Hour)) {
		percent = 60
	}
	for len(faults) < 3 && w.chance(percent) {
		faults = append(faults, ending{outcome: "RETRIED", err: mailBusy})
	}
	return faults
}

// welcome is a new member: a task with two follow-ups.
func (w *week) welcome(i int, at time.Time) {
	membership, member, tenant := fmt.Sprintf("membership-%04d", i), w.member(), w.tenant()
	t := w.insert(at, "schedule", accountsAPI, &task{
		id: "task-WELCOME_MEMBER-" + membership, kind: "WELCOME_MEMBER", scheduledAt: at, tenant: tenant,
		payload: map[string]any{"membership_id": membership}, entity: "membership:" + membership,
	})
	w.run(t)
	if t.finishedAt.IsZero() {
		return // a live node runs it, and asks for the follow-ups
	}
	follow := func(next *task) *task {
		next.entity, next.tenant, next.spawnedBy, next.scheduledBy = t.entity, tenant, t.id, accountsAPI
		return w.insert(t.finishedAt, "schedule", "task "+t.id, next)
	}
	w.run(follow(&task{
		id: w.newID(t.finishedAt), kind: "SEND_EMAIL", scheduledAt: t.finishedAt,
		payload: map[string]any{
			"email": addressOf(member), "subject": "Welcome to " + tenant,
			"body": "You are a member of " + tenant + " now.\n",
		},
	}), w.mailFaults(at)...)
	message := follow(&task{
		id: w.newID(t.finishedAt), kind: "SEND_DIRECT_MESSAGE", scheduledAt: at.Add(24 * time.Hour),
		payload: map[string]any{
			"from": memberID(host), "to": member, "text": "How was your first day in " + tenant + "? Ask me anything.",
		},
	})
	if left := at.Add(w.between(time.Hour, 20*time.Hour)); w.chance(4) && left.Before(w.until) {
		w.cancel(message, left, "cancel", accountsAPI)
	}
	w.run(message)
}

func (w *week) webhook(at time.Time) {
	tenant := w.tenant()
	t := w.insert(w.earlier(at, time.Millisecond, time.Second), "schedule", partnerKey, w.request(at, tenant))
	answer := ending{result: map[string]any{
		"status": 200, "headers": map[string]string{"Content-Type": "application/json"},
	}}
	if w.chance(4) {
		w.run(t, ending{outcome: "RETRIED", err: partnerAway}, answer)
		return
	}
	w.run(t, answer)
}

// request is a call of a partner.
func (w *week) request(at time.Time, tenant string) *task {
	return &task{
		id: w.newID(at), kind: "HTTP_REQUEST", queue: webhookQueue, scheduledAt: at, tenant: tenant,
		entity: fmt.Sprintf("order:%05d", w.random.IntN(100000)), expected: time.Minute,
		payload: map[string]any{
			"url":  "https://hooks.partner.example/" + tenant,
			"body": map[string]any{"tickets": 1 + w.random.IntN(4), "member": w.member()},
		},
	}
}

const (
	partnerAway = "answered 503 to hooks.partner.example (Service Unavailable)"
	partnerGone = "answered 404 to hooks.partner.example (Not Found)"
)
