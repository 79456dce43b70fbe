package browsertest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// serve runs a node until the test ends. Its handlers of the types do nothing.
func (s *site) serve(queues map[string]int, types ...string) {
	s.Helper()
	var parts []handlers.Part
	for _, one := range types {
		parts = append(parts, handlers.Func(one, func(context.Context) error { return nil }))
	}
	registry, err := handlers.NewRegistry(parts...)
	if err != nil {
		s.Fatal(err)
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: s.pool, Handlers: registry, Service: "club", Queues: queues,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	s.Cleanup(func() { // before the pool is closed
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

func (s *site) schedule(id string, in time.Duration) {
	s.Helper()
	task := store.Task{ID: id, Payload: store.JSON(`{"type": "GREET"}`), At: time.Now().Add(in)}
	if _, err := s.tasks.Schedule(s.Context(), s.pool, task); err != nil {
		s.Fatal(err)
	}
}

func (s *site) status(id string) store.Status {
	s.Helper()
	row, err := s.tasks.Get(s.Context(), s.pool, id)
	if err != nil {
		s.Fatal(err)
	}
	return row.Status
}

// operator is a tab in which somebody is signed in who may schedule and operate.
func (s *site) operator(name string) *tab {
	s.Helper()
	b := s.open()
	b.signIn(s.key(name, keys.Read, keys.Schedule, keys.Operate))
	return b
}

// Pages follow a task from due to done, and a queue from paused to resumed. Nobody loads them anew.
func TestPagesAreLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedule("greet", time.Hour)
	task, list := s.operator("ann"), s.operator("bob")
	task.look("/tasks/greet")
	list.look("/tasks?order=-scheduled_at")
	for _, b := range []*tab{task, list} {
		b.do(chromedp.Evaluate[chromedp.Void](`window.sameLoad = true; undefined`))
		b.is(`document.querySelector("#live").dataset.state === "on"`)
		b.is(`document.querySelector("#main .badge[data-status=QUEUED]")`)
	}
	_, err := s.tasks.PauseScope(t.Context(), s.pool, store.Queue("default"), time.Time{}, "the greeter moves")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.tasks.RunNow(t.Context(), s.pool, "greet"); err != nil {
		t.Fatal(err)
	}
	task.shows("the greeter moves")
	s.serve(nil, "GREET")
	task.is(`!document.body.innerText.includes("No node is running")`)
	if got := s.status("greet"); got != store.StatusQueued {
		t.Errorf("in a paused queue it is %s", got)
	}
	if _, err := s.tasks.ResumeScope(t.Context(), s.pool, store.Queue("default")); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*tab{task, list} {
		b.is(`document.querySelector("#main .badge[data-status=COMPLETED]") && window.sameLoad`)
	}
	task.shows("attempt 1 completed")
}

// The change of a task is on an open page within a second.
func TestAPageFollowsWithinASecond(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedule("greet", time.Hour)
	b := s.operator("ann")
	b.look("/tasks/greet")
	b.is(`document.querySelector("#live").dataset.state === "on"`)
	fastest := waitLimit
	for range 5 { // one of five, because other tests may keep the processor
		began := time.Now()
		if _, err := s.tasks.Pause(t.Context(), s.pool, "greet"); err != nil {
			t.Fatal(err)
		}
		b.is(`document.querySelector("#main .badge[data-status=PAUSED]")`)
		fastest = min(fastest, time.Since(began))
		if _, err := s.tasks.Resume(t.Context(), s.pool, "greet"); err != nil {
			t.Fatal(err)
		}
		b.is(`document.querySelector("#main .badge[data-status=QUEUED]")`)
	}
	if fastest > time.Second {
		t.Errorf("the fastest of five changes was shown after %v", fastest)
	}
}

// Somebody searches a task, pauses it, and acts on several at once after a question.
func TestSearchAndAct(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, id := range []string{"mail-1", "mail-2", "mail-3", "other"} {
		s.schedule(id, time.Hour)
	}
	b := s.operator("ann")
	b.look("/tasks")
	b.search("other")
	b.shows("Its time has not come")
	b.do(chromedp.Click(`//summary[contains(., "Pause")]`))
	b.submit("Pause")
	b.shows("is paused")
	s.waitFor(`SELECT status = 'PAUSED' FROM tasktable.scheduled_tasks WHERE id = 'other'`)

	b.search("mail-")
	b.is(`document.querySelectorAll("tbody tr").length === 3`)
	b.press("jxjx") // the first two rows
	b.is(`document.querySelectorAll("tbody input:checked").length === 2`)
	b.do(chromedp.Click(`//summary[contains(., "Act on tasks")]`)) // folded in a narrow window, as this one
	b.submit("Cancel")
	b.shows("Cancel 2 tasks")
	b.submit("Cancel 2 tasks")
	b.shows("2 tasks are cancelled")
	s.waitFor(`SELECT count(*) = 2 FROM tasktable.scheduled_tasks WHERE status = 'CANCELLED'`)
	s.waitFor(`SELECT count(*) = 3 FROM tasktable.scheduled_task_changes WHERE changed_by = 'ann'`)
	b.press("?")
	b.is(`document.querySelector("#keys-dialog").open`)
}

// search types into the field that the key / chooses.
func (b *tab) search(text string) {
	b.Helper()
	b.press("/")
	b.is(`document.activeElement.id === "search"`)
	// chromedp has typed the key, too, although the page has taken it.
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""; undefined`),
		chromedp.KeyEvent(text+"\r"))
}

// Two people edit one task. The second one learns of the first one's change. The second one's text is not lost.
func TestTwoPeopleEditOneTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedule("greet", time.Hour)
	ann, bob := s.operator("ann"), s.operator("bob")
	for _, b := range []*tab{ann, bob} {
		b.look("/tasks/greet/edit")
	}
	ann.do(chromedp.SetValue(chromedp.CSS(`input[name="priority"]`), "7"))
	ann.submit("Save")
	ann.shows("greet is changed.")
	bob.expect("409")
	bob.do(chromedp.SetValue(chromedp.CSS(`input[name="queue"]`), "mail"))
	bob.submit("Save")
	bob.shows("Somebody else has changed greet since you began.")
	bob.is(`document.querySelector('input[name="queue"]').value === "mail"`)
	if row, err := s.tasks.Get(t.Context(), s.pool, "greet"); err != nil || row.Queue != "default" || row.Priority != 7 {
		t.Fatalf("after the second edit: %+v, %v", row, err)
	}
	bob.submit("Save mine")
	bob.shows("greet is changed.")
	if row, err := s.tasks.Get(t.Context(), s.pool, "greet"); err != nil || row.Queue != "mail" || row.Priority != 7 {
		t.Errorf("at the end: %+v, %v", row, err)
	}
}

// A live page changes while somebody types into its form. The typed text stays.
func TestALivePageKeepsWhatIsTyped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedule("greet", time.Hour)
	b := s.operator("ann")
	b.look("/tasks/greet")
	b.is(`document.querySelector("#live").dataset.state === "on"`)
	b.do(chromedp.Click(`//summary[contains(., "Move")]`), chromedp.SendKeys(chromedp.CSS(`input[name="at-in"]`), "+3h"))
	if _, err := s.tasks.Schedule(t.Context(), s.pool, store.Task{
		ID: "greet", Payload: store.JSON(`{"type": "GREET"}`), Entity: "event:42",
	}); err != nil {
		t.Fatal(err)
	}
	b.shows("event:42")
	b.is(`document.querySelector('input[name="at-in"]').value === "+3h" && document.querySelector("details[open]")`)
}

// A queue is paused and resumed, without JavaScript, too.
func TestPausedQueue(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"with", "without"} {
		t.Run(script+" JavaScript", func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.serve(nil, "GREET")
			b := s.open()
			if script == "without" {
				b.withoutScript()
			}
			b.signIn(s.key("ann", keys.Read, keys.Operate))
			b.look("/queues?pause=queue:default")
			b.do(chromedp.SendKeys(chromedp.CSS(`input[name="reason"]`), "the greeter moves"),
				chromedp.Submit(chromedp.CSS(`input[name="reason"]`)))
			s.waitFor(`SELECT count(*) = 1 FROM tasktable.pauses WHERE name = 'default' AND reason = 'the greeter moves'
				AND paused_by = 'ann'`)
			// The browser must have followed the answer. Its redirect would end the load of the next page.
			b.do(chromedp.WaitVisible(`//*[contains(text(), "the greeter moves")]`))
			s.schedule("greet", 0)
			b.look("/tasks/greet")
			b.do(chromedp.WaitVisible(`//*[contains(text(), "the greeter moves")]`))
			b.look("/queues")
			b.submit("Resume")
			s.waitFor(`SELECT status = 'COMPLETED' FROM tasktable.scheduled_tasks WHERE id = 'greet'`)
		})
	}
}

// A live list gets another order, a new row, and loses one. What somebody has chosen stays chosen.
func TestALivePageKeepsWhatIsChosen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		s.schedule(id, time.Duration(i+1)*time.Hour)
	}
	b := s.operator("ann")
	b.look("/tasks?order=scheduled_at")
	b.is(`document.querySelector("#live").dataset.state === "on"`)
	b.do(chromedp.Click(`//input[@aria-label="Select b"]`))
	b.press("jjjj")
	b.do(chromedp.KeyEvent("x")) // the row of d has the focus
	rows := `[...document.querySelectorAll("#main tr[data-key]")].map(row => row.dataset.key).join("")`
	chosen := rows + ` + " " + [...document.querySelectorAll("#main input[name=task]:checked")]
		.map(box => box.closest("tr").dataset.key).join("")`
	b.is(chosen + ` === "abcde bd"`)
	s.schedule("e", time.Minute)
	b.is(rows + `=== "eabcd"`)
	b.is(chosen + ` === "eabcd bd"`)
	b.is(`document.querySelector("#main tr.chosen").dataset.key === "d"`)
	s.schedule("f", 90*time.Minute)
	if _, err := s.tasks.Delete(t.Context(), s.pool, "a"); err != nil {
		t.Fatal(err)
	}
	b.is(rows + `=== "efbcd"`)
	s.schedule("b", 10*time.Hour)
	b.is(chosen + ` === "efcdb db"`)
}
