package browsertest

import (
	"bytes"
	_ "embed" // testdata/week.sql
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

//go:embed testdata/week.sql
var weekSQL string

// newWeek is a site that shows a week of an application, and on which a node runs.
func newWeek(t *testing.T) *site {
	t.Helper()
	s := newSite(t, func(c *dashboard.Config) {
		c.Environment, c.EnvironmentColor = "demo", "purple"
		if err := pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), weekSQL)
			return err
		}); err != nil {
			t.Fatalf("write the week: %v", err)
		}
	})
	queues := map[string]int{store.DefaultQueue: 10, "mail": 4, "webhooks": 4, "newsletter": 2}
	s.serve(queues, s.types()...)
	s.waitFor(`SELECT count(*) > 0 FROM tasktable.nodes WHERE dead_at IS NULL AND elected_at IS NOT NULL`)
	return s
}

// types are the types of the week's tasks. No node has the one that the week says is overdue.
func (s *site) types() []string {
	s.Helper()
	rows, err := s.pool.Query(s.Context(),
		`SELECT DISTINCT type::text FROM tasktable.scheduled_tasks WHERE type <> 'EXPORT_STATISTICS'`)
	if err != nil {
		s.Fatal(err)
	}
	types, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	return types
}

// shown is a page, or a view of it. Path may have the id of a task that a query finds, instead of {id}.
type shown struct {
	name, path, idSQL string
	want              string // a text of the page
}

var pages = []shown{
	{name: "overview", path: "/", want: "Overview"},
	{name: "overview-7d", path: "/?window=7d", want: "Overview"},
	{name: "tasks", path: "/tasks", want: "Tasks"},
	{name: "tasks-failed", path: "/tasks?status=FAILED", want: "FAILED"},
	{name: "tasks-new", path: "/schedule", want: "Schedule"},
	{name: "task-completed", path: "/tasks/{id}", want: "COMPLETED",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE status = 'COMPLETED' AND t.attempt > 1 LIMIT 1`},
	{name: "task-failed", path: "/tasks/{id}", want: "FAILED",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE id = 'partner-invoice-05'`},
	{name: "task-waiting", path: "/tasks/{id}", want: "QUEUED",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE status = 'QUEUED' AND cron IS NULL LIMIT 1`},
	{name: "task-edit", path: "/tasks/{id}/edit", want: "Edit",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE status = 'QUEUED' AND cron IS NULL LIMIT 1`},
	{name: "dead", path: "/dead", want: "Dead letters"},
	{name: "recurring", path: "/recurring", want: "Recurring"},
	{name: "recurring-task", path: "/recurring/{id}", want: "fires",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t
			WHERE cron IS NOT NULL ORDER BY occurrence_count DESC LIMIT 1`},
	{name: "recurring-edit", path: "/recurring/{id}/edit", want: "Cron expression",
		idSQL: `SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE cron IS NOT NULL ORDER BY occurrence_count DESC LIMIT 1`},
	{name: "queue", path: "/queues/newsletter", want: "Lanes"},
	{name: "dead-list", path: "/dead?by=task", want: "Dead letters"},
	{name: "keys-new", path: "/keys/new", want: "New key"},
	{name: "notices-rule", path: "/notices/rule?name=dead-letters", want: "Rule"},
	{name: "notices-recipient", path: "/notices/recipient?name=ops", want: "Recipient"},
	{name: "calendar", path: "/recurring/calendar", want: "Coming fires"},
	{name: "queues", path: "/queues", want: "Queues"},
	{name: "limits", path: "/limits", want: "Limits"},
	{name: "defaults", path: "/defaults", want: "Defaults"},
	{name: "nodes", path: "/nodes", want: "Nodes"},
	{name: "nodes-ended", path: "/nodes?ended=1", want: "Nodes"},
	{name: "changes", path: "/changes", want: "Changes"},
	{name: "keys", path: "/keys", want: "Keys"},
	{name: "notices", path: "/notices", want: "Notices"},
}

// Each page is accessible, and fits its window, on a wide screen and on a phone, in light and in dark colors.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newWeek(t)
	secret := s.key("ann", keys.Scopes()...)
	for _, width := range []int64{1280, 390} {
		for _, theme := range []string{"light", "dark"} {
			if (width == 1280) != (theme == "light") && os.Getenv("TASKTABLE_TEST_PAGES") == "" {
				continue // make pages has all four
			}
			t.Run(fmt.Sprintf("%d %s", width, theme), func(t *testing.T) {
				t.Parallel()
				own := *s
				own.T = t
				b := own.open()
				b.size(width, theme)
				b.signIn(secret)
				for _, page := range pages {
					b.walk(page, width, theme)
				}
			})
		}
	}
}

func (b *tab) walk(page shown, width int64, theme string) {
	b.Helper()
	path := page.path
	if page.idSQL != "" {
		var id string
		if err := b.pool.QueryRow(b.Context(), page.idSQL).Scan(&id); err != nil {
			b.Fatalf("%s: %v", page.name, err)
		}
		path = strings.ReplaceAll(path, "{id}", strings.ReplaceAll(id, "/", "%2F"))
	}
	b.look(path)
	what := fmt.Sprintf("%s at %d in %s", page.name, width, theme)
	if text := read(b, chromedp.Text(chromedp.CSS("#main"))); !strings.Contains(text, page.want) {
		b.Errorf("%s: no %q in %.500s", what, page.want, text)
	}
	if read(b, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`)) {
		wide := read(b, chromedp.Evaluate[string](`[...document.querySelectorAll("body *")].filter(e =>
			e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).map(e => e.outerHTML.slice(0, 150)).slice(0, 3).join("\n")`))
		b.Errorf("%s: the page is wider than its window: %s", what, wide)
	}
	b.accessible(what)
	b.picture(fmt.Sprintf("%s-%d-%s", page.name, width, theme))
}

// picture writes a picture of the page to the folder of TASKTABLE_TEST_PICTURES, if it is set.
func (b *tab) picture(name string) {
	b.Helper()
	folder := os.Getenv("TASKTABLE_TEST_PICTURES")
	if folder == "" {
		return
	}
	taken := read(b, chromedp.CaptureScreenshot())
	if _, err := png.DecodeConfig(bytes.NewReader(taken)); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), taken, 0o600); err != nil {
		b.Fatal(err)
	}
}

// waitFor waits until a condition of the database holds.
func (s *site) waitFor(sql string, args ...any) {
	s.Helper()
	for deadline := time.Now().Add(waitLimit); ; {
		var holds bool
		if err := s.pool.QueryRow(s.Context(), sql, args...).Scan(&holds); err != nil {
			s.Fatal(err)
		}
		if holds {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("it does not become true: %s", sql)
		}
		<-time.After(10 * time.Millisecond)
	}
}
