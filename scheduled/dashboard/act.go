package dashboard

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// act is a kind of change that a form asks for by POST.
type act struct {
	path   string // a pattern of net/http, such as /tasks/{id}/cancel
	needs  Scopes // all of them
	global bool   // it is about the whole service, so a person with a tenant may not do it
	many   bool   // it may change thousands of tasks, so it has manyTimes the Timeout
	do     func(context.Context, *visit) (done, error)
}

const manyTimes = 6

// actsOfOne is how many acts of one person have a connection at once. They may wait for long for a lock on a task, and
// people could otherwise look at no page meanwhile. For the same reason all acts together leave one connection.
const actsOfOne = 2

// done tells what an act has done.
type done struct {
	text string // a sentence for the person
	// tasks are a few tasks that the sentence is about. Their ids follow it, as links.
	tasks []string
	to    string // the page to go to; "" means the form's field back
	// show is the template of a page to show at once, whose .View is view. Without a text the page asks the person
	// first, or it is a form that has errors. Then all that the act has changed is undone. With a text the page shows
	// the result of the act, such as a key that is shown once.
	show   string
	status int // of that page; 0 means 200
	title  string
	view   any
}

// refused shows a form once more, with its errors.
func refused(template, title string, view any) done {
	return done{show: template, status: http.StatusUnprocessableEntity, title: title, view: view}
}

// asks reports whether the act has done nothing yet.
func (made done) asks() bool { return made.show != "" && made.text == "" }

var errAsks = errors.New("the person is asked first")

const (
	saidCookie = "tasktable_said"
	saidAge    = time.Minute
	maxSaid    = 3000 // bytes; browsers refuse cookies of over 4 KB
)

// act adds an act, which runs in one transaction, in the name of the person. An error of do undoes all.
func (d *Dashboard) act(mux *http.ServeMux, a act) {
	mux.HandleFunc("POST "+a.path, func(w http.ResponseWriter, r *http.Request) {
		person, known := d.admit(w, r)
		if !known {
			return
		}
		v := &visit{board: d, request: r, person: person, look: lookOf(r), timeout: d.config.Timeout}
		if a.many {
			v.timeout *= manyTimes
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * v.timeout)) // a server may have less
		}
		give, err := d.takeForm(w, r, person)
		if err == nil {
			defer give()
			err = readForm(w, r, maxFormBytes)
		}
		var made done
		if err == nil {
			// The form may have arrived slowly, and the key may have been revoked since.
			if v.person, known = d.admit(w, r); !known {
				return
			}
			made, err = d.perform(v, a)
		}
		switch {
		case err != nil:
			d.write(w, v, d.errorAnswer(r, err))
		case made.show != "":
			d.write(w, v, answer{cmp.Or(made.status, http.StatusOK), made.show, made.title, made.view})
		default:
			d.leadBack(w, r, made)
		}
	})
}

// perform does an act for the person of a visit, if the person may do it.
func (d *Dashboard) perform(v *visit, a act) (made done, err error) {
	id := v.request.PathValue("id")
	if err := errors.Join(allow(v.person, a.needs, a.global), reserved(v.person, id, "")); err != nil {
		return made, err
	}
	give, err := d.acts.Take(v.request.Context(), v.person.Name+"\n"+v.person.Tenant, 1, formPatience)
	if err != nil {
		return made, tell(http.StatusServiceUnavailable, "Busy",
			"Too many acts are under way, because one of them waits for a task. Nothing was done. Try again.")
	}
	defer give()
	err = d.begin(v, true, func(ctx context.Context) (err error) {
		if made, err = a.do(ctx, v); err == nil && made.asks() {
			err = errAsks
		}
		return err
	})
	switch {
	case errors.Is(err, errAsks):
		return made, nil
	case err == nil:
		d.config.Logger.Info("somebody acted in the dashboard", "by", v.person.Name, "path", v.request.URL.Path)
	}
	return made, err
}

// leadBack leads to the next page, which shows the sentence once.
func (d *Dashboard) leadBack(w http.ResponseWriter, r *http.Request, made done) {
	to := made.to
	if to == "" {
		to = d.localPath(r.PostFormValue("back"))
	}
	d.setCookie(w, r, saidCookie, encodeSaid(said{made.text, made.tasks}), saidAge)
	http.Redirect(w, r, d.link(to), http.StatusSeeOther)
}

// said is what the last act has done.
type said struct {
	Text  string
	Tasks []string // ids
}

// encodeSaid leaves out the tasks, and then the text, if a cookie cannot hold them.
func encodeSaid(told said) string {
	for _, shorter := range []said{told, {Text: told.Text}, {Text: "It was done."}} {
		if encoded, err := json.Marshal(shorter); err == nil && len(encoded) <= maxSaid {
			return base64.RawURLEncoding.EncodeToString(encoded)
		}
	}
	return ""
}

// said returns what the act that led to this page has done, and removes it.
func (d *Dashboard) said(w http.ResponseWriter, r *http.Request) (told said) {
	cookie, err := r.Cookie(saidCookie)
	if err != nil {
		return said{}
	}
	d.setCookie(w, r, saidCookie, "", -time.Second)
	encoded, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || json.Unmarshal(encoded, &told) != nil {
		return said{}
	}
	return told
}

const lockTaskSQL = `SELECT FROM tasktable.scheduled_tasks WHERE id = $1::text FOR NO KEY UPDATE`

// locked returns a task that nobody else can change until the act ends. The form's field revision is the one that the
// person saw. If the task has another revision by now, the error tells what has changed since.
func (v *visit) locked(ctx context.Context, id string) (store.Row, error) {
	if _, err := v.tasks.Get(ctx, v.db, id); err != nil { // it checks the id
		return store.Row{}, err
	}
	tx, _ := v.db.(pgx.Tx)
	if _, err := tx.Exec(ctx, v.board.schema.SQL(lockTaskSQL), id); err != nil {
		return store.Row{}, fmt.Errorf("lock task %s: %w", id, err)
	}
	row, err := v.tasks.Get(ctx, v.db, id)
	if err != nil || v.form("revision") == strconv.FormatInt(row.Revision, 10) {
		return row, err
	}
	seen, err := strconv.ParseInt(v.form("revision"), 10, 64)
	if err != nil {
		return row, tell(http.StatusBadRequest, "Not valid", "The form has no revision.")
	}
	return row, v.changedSince(ctx, row.ID, seen)
}

// changedSince returns the error that tells which changes were made to a task after a revision.
func (v *visit) changedSince(ctx context.Context, id string, seen int64) error {
	history, err := v.tasks.RecentHistory(ctx, v.db, id, 20)
	if err != nil {
		return err
	}
	told := conflict("Somebody has changed " + id + " since you saw it. Nothing was done. Look at it again.")
	for _, change := range history.Changes {
		if change.Revision > seen {
			told.view.Changes = append(told.view.Changes, v.changeViewOf(change))
		}
	}
	return told
}
