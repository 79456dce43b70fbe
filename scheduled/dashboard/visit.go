package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
	"github.com/tasktable/tasktable/store/inspect"
)

// visit is one look of a person at a page, or one act. A view and an act work with it.
type visit struct {
	board   *Dashboard
	request *http.Request
	person  Person
	look    look
	now     time.Time     // the database's
	timeout time.Duration // 0: that of the Config

	db        store.DB // the pool, or a transaction
	tasks     *store.Store
	inspector *inspect.Inspector

	answer answer // of the view
}

// query returns a parameter of the page's address.
func (v *visit) query(name string) string { return v.request.URL.Query().Get(name) }

// values returns all parameters of the page's address.
func (v *visit) values() url.Values { return v.request.URL.Query() }

// path returns a part of the page's path, such as {id}.
func (v *visit) path(name string) string {
	return strings.TrimPrefix(v.request.PathValue(name), idMark)
}

// form returns a field of the form that was read. Unlike PostFormValue it reads none.
func (v *visit) form(name string) string { return v.request.PostForm.Get(name) }

// may reports whether the person has scopes.
func (v *visit) may(needed Scopes) bool { return v.person.Scopes.may(needed) }

const exactLayout = "2006-01-02 15:04:05 MST"

// exact is a time as text, in the person's zone.
func (v *visit) exact(at time.Time) string { return at.In(v.look.zone).Format(exactLayout) }

// payload returns the payload of a task as indented text. shown is false if the person may not see it.
func (v *visit) payload(ctx context.Context, row store.Row) (text string, shown bool, err error) {
	if !v.may(v.board.config.PayloadScope) {
		return "", false, nil
	}
	decoded, err := v.tasks.Payload(ctx, row)
	if err != nil {
		return "", true, err
	}
	indented, err := form.Encode(decoded, "  ")
	if err != nil {
		return "", true, fmt.Errorf("indent the payload: %w", err)
	}
	return string(indented), true, nil
}

// errAllTenants refuses a page about the whole service to a person with a tenant.
var errAllTenants = errors.New("the page is about all tenants")

// scopeError refuses an act, or a page, for which the person lacks scopes.
type scopeError struct{ lacking Scopes }

func (e scopeError) Error() string { return "this needs the scope " + e.lacking.String() }

const nowSQL = `SELECT clock_timestamp()`

// begin calls do with a visit that can read. A person with a tenant reads in a transaction that Postgres holds to the
// tenant. An act has a transaction in any case.
func (d *Dashboard) begin(v *visit, acts bool, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(v.request.Context(), cmp.Or(v.timeout, d.config.Timeout))
	defer cancel()
	own := d.config.Store
	own.Service = v.person.Name
	v.tasks, v.inspector = store.New(own), inspect.New(own)
	on := func(db store.DB) (err error) {
		v.db = db
		if v.now, err = pg.QueryOne[time.Time](ctx, db, "read the time", nowSQL); err != nil {
			return err
		}
		return do(ctx)
	}
	if v.person.Tenant == "" && !acts {
		return on(d.config.Pool)
	}
	mode := pgx.ReadOnly
	if acts {
		mode = pgx.ReadWrite
	}
	return pgx.BeginTxFunc(ctx, d.config.Pool, pgx.TxOptions{AccessMode: mode}, func(tx pgx.Tx) error {
		if types, queues := v.person.Types, v.person.Queues; acts && types+queues != "" {
			if err := d.config.Keys.Bind(ctx, tx, strings.Split(types, ","), strings.Split(queues, ",")); err != nil {
				return err
			}
		}
		if v.person.Tenant != "" {
			if err := d.config.Keys.Enter(ctx, tx, v.person.Tenant); err != nil {
				return err
			}
		}
		return on(tx)
	})
}
