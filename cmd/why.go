package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const whyHelp = `Explains one task. First it prints one sentence: why the task does not run, or when and where it ran.
For example, the task is paused, no node knows its type, it waits behind others, it expired, or somebody cancelled it.
Then it prints the story of the task: who scheduled and edited it, the old and the new values, when it was due, when
it began and on which node, and each failure. At the end it prints what will happen next.

A task that was deleted has a story, too. If an id was never scheduled, the command names similar ids, and the exit
code is 1. Otherwise the exit code is 0, whether the task ran or not.

With --entity it explains the task of that entity. If the entity has several tasks, it lists each with its sentence,
the latest 20 by their time. If the entity has no tasks, the exit code is 1. With --output json, --entity always prints
an array.

The role of an application may ask about the tasks that it may read. It learns less about nodes than the roles of the
engine and of the auditor. In Go, use Why of store/inspect. In SQL, use the views task_reasons and task_timeline, or
for one task the function reason_of.`

// why is the command why.
type why struct {
	*client
	given  []string
	entity string
}

// maxOfEntity is how many tasks of an entity are listed.
const maxOfEntity = 20

func (p *program) whyCommand() *cobra.Command {
	w := &why{client: p.client()}
	return p.BindArguments(&cobra.Command{
		Use:   "why {ID | --entity ENTITY}",
		Short: "Tells why a task did not run, or when and where it did, and its whole story",
		Long:  whyHelp,
		Example: `  tasktable why task-SEND_EVENT_REMINDER-42
  tasktable why task-SEND_EVENT_REMINDER-42 --time-zone Europe/Berlin
  tasktable why task-SEND_EVENT_REMINDER-42 --output json | jq -r .reason.code
  tasktable why --entity event:42`,
	}, append([]options.Option{{Flag: "entity", Kind: "entity", Set: options.Text(&w.entity, store.MaxIDBytes),
		Usage: "explains the tasks of this entity, such as event:42"}},
		w.options()...), options.IDs(&w.given, 0, 1, w.ids()), w.opened(w.run, w.check))
}

// check requires an id or --entity, and not both.
func (w *why) check() error {
	switch {
	case len(w.given) > 0 && w.entity != "":
		return options.Usage("takes an ID or --entity, not both")
	case len(w.given) == 0 && w.entity == "":
		return options.Usage("needs one ID, or --entity")
	}
	return nil
}

func (w *why) run(ctx context.Context) error {
	if w.entity != "" {
		return w.ofEntity(ctx)
	}
	e, err := w.inspector.Why(ctx, w.pool, w.given[0])
	if err != nil {
		return err
	}
	if w.JSON {
		if err := w.Document(e); err != nil {
			return err
		}
	}
	switch {
	case !e.Known():
		return w.unknown(e)
	case w.JSON:
		return nil
	}
	return w.print(e)
}

// ofEntity tells the story of the one task of an entity, or lists several with the sentence of each.
func (w *why) ofEntity(ctx context.Context) error {
	// One more than needed shows whether there are others.
	explained, err := w.inspector.WhyEntity(ctx, w.pool, w.entity, maxOfEntity+1)
	if err != nil {
		return err
	}
	more := len(explained) > maxOfEntity
	if more {
		explained = explained[1:] // the earliest
	}
	if w.JSON {
		if err := w.Document(explained); err != nil {
			return err
		}
	}
	switch {
	case len(explained) == 0:
		return fmt.Errorf("entity %s has no task", term.Printable(w.entity))
	case w.JSON:
	case len(explained) == 1:
		return w.print(explained[0])
	default:
		if err := w.sentences(explained).Print(w.Data, w.Colors, 0); err != nil {
			return err
		}
	}
	if more {
		w.Note("These are the latest %d. All of them: tasktable tasks list --entity %s", maxOfEntity,
			term.Printable(term.Quote(w.entity)))
	}
	return nil
}

func (w *why) sentences(explained []inspect.Explanation) *term.Table {
	t := term.NewTable("ID", "STATUS", "WHY")
	for _, e := range explained {
		status := "" // it was deleted meanwhile
		if e.Row != nil {
			status = string(e.Row.Status)
		}
		t.Add(e.ID, status, w.sentence(e.Reason))
	}
	return t
}

// unknown is the error of an id that was never scheduled.
func (w *why) unknown(e inspect.Explanation) error {
	return fmt.Errorf("task %s: %s%s", term.Printable(e.ID), term.Printable(w.sentence(e.Reason)),
		theNearest(e.Nearest))
}

// theNearest names ids that are like one that does not exist, or is "" if there are none.
func theNearest(ids []string) string {
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return "; the nearest id is " + term.Printable(ids[0])
	}
	return "; the nearest ids are " + term.Printable(strings.Join(ids, ", "))
}

func (w *why) sentence(r inspect.Reason) string {
	return r.Sentence(func(at time.Time) string { return w.When(&at) })
}

func (w *why) print(e inspect.Explanation) error {
	status := ""
	if e.Row != nil {
		status = " is " + term.Paint(string(e.Row.Status), term.StatusColors[string(e.Row.Status)], w.Colors)
	}
	sentence, stop := term.Printable(w.sentence(e.Reason)), "."
	// An error may end with its own punctuation, or with an ellipsis if it was cut.
	if last, _ := utf8.DecodeLastRuneInString(sentence); strings.ContainsRune(".…!?", last) {
		stop = ""
	}
	fmt.Fprintf(w.Data, "%s%s: %s%s\n\n", term.Paint(term.Printable(e.ID), term.Bold, w.Colors), status, sentence, stop)
	story := term.NewTable("AT", "WHEN", "WHAT")
	for i, line := range e.Story {
		if i == 1 && e.Shortened {
			story.Add("", "", "(some time is left out)")
		}
		story.Add(w.Exact(&line.At), w.Relative(line.At), w.line(line))
	}
	if err := story.Print(w.Data, w.Colors, 0); err != nil {
		return err
	}
	if len(e.Next) == 0 {
		return nil
	}
	fmt.Fprintln(w.Data)
	next := term.NewTable("NEXT", "WHAT")
	for _, one := range e.Next {
		next.Add(w.When(one.At), one.Text)
	}
	return next.Print(w.Data, w.Colors, 0)
}

// line returns a change as text, such as "edited by events-api: scheduled_at … → …, payload.place … → …".
func (w *why) line(line inspect.StoryLine) string {
	if len(line.Facts) == 0 {
		return line.Text
	}
	said := make([]string, len(line.Facts))
	for i, fact := range line.Facts {
		said[i] = fact.Name + " " + w.fact(fact.Value)
		if fact.Was != nil {
			said[i] = fact.Name + " " + w.fact(fact.Was) + " → " + w.fact(fact.Value)
		}
	}
	return line.Text + ": " + strings.Join(said, ", ")
}

func (w *why) fact(value any) string {
	switch value := value.(type) {
	case nil:
		return "none"
	case time.Time:
		return w.Exact(&value)
	case time.Duration:
		return term.Took(value)
	}
	return fmt.Sprint(value)
}
