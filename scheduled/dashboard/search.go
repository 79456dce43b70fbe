package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// search leads to the page of the task that has the id. If there never was one, it leads to the list of the tasks whose
// ids begin so.
func (d *Dashboard) search(w http.ResponseWriter, r *http.Request) {
	person, known := d.admit(w, r)
	if !known {
		return
	}
	v := &visit{board: d, request: r, person: person, look: lookOf(r)}
	given := v.query("q")
	trimmed := strings.TrimSpace(given) // a pasted id often has a space at its end
	to := d.link("/tasks", "id_prefix", trimmed)
	var err error
	if trimmed != "" {
		err = d.begin(v, false, func(ctx context.Context) error {
			for _, id := range []string{given, trimmed} {
				known, err := v.everScheduled(ctx, id)
				if known {
					to = d.link(taskPath(id))
				}
				if known || err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, store.ErrInvalid) { // the list tells the rule of ids
		d.fail(w, r, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// everScheduled reports whether there is a task, or a history of one.
func (v *visit) everScheduled(ctx context.Context, id string) (bool, error) {
	_, err := v.tasks.Get(ctx, v.db, id)
	if !errors.Is(err, store.ErrNotFound) {
		return err == nil, err
	}
	history, err := v.tasks.RecentHistory(ctx, v.db, id, 1)
	return len(history.Changes)+len(history.Executions) > 0, err
}
