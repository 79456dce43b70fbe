// Package docs is what the blocks of Go in the documents leave to the reader. Each block is compiled together with a
// copy of this file, without what the block itself declares.
package docs

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"github.com/tasktable/tasktable/cmd/testdata/docs/contract"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

var (
	ctx    context.Context
	err    error
	pool   *pgxpool.Pool
	tx     pgx.Tx
	db     store.DB
	sqlTx  *sql.Tx
	gormTx *gorm.DB
	logger *slog.Logger
	secret []byte
	mux    *http.ServeMux
	node   *scheduled.Node
	t      *testing.T

	tasks                    = store.New(store.Config{})
	inspector                = inspect.New(store.Config{})
	task                     store.Task
	id                       string
	at                       time.Time
	from, to                 time.Time
	monday                   time.Time
	inAMinute, fivePM, sixPM time.Time

	p                 RemindOfEvent
	ev                Event
	event             Event
	m                 member
	publish, reminder store.Task

	registry  *handlers.Registry
	reminders = &Reminders{}
	events    = &Events{}
	tracing   handlers.Middleware
)

type SendEventReminder = contract.SendEventReminder

type RemindOfEvent struct{ EventID string }

func (RemindOfEvent) TaskType() string { return "REMIND_OF_EVENT" }

type Event struct {
	ID       string
	StartsAt time.Time
}

type member struct{ ID, TimeZone string }

type Mailer interface {
	Send(ctx context.Context, eventID, key string) error
}

type Reminders struct{ mail Mailer }

func signedIn(*http.Request) (name string, err error) { return "", nil }

func (r *Reminders) Send(context.Context, *handlers.Task[contract.SendEventReminder]) error {
	return nil
}

type Events struct{}

func (*Events) Publish(context.Context, pgx.Tx, *handlers.Task[contract.SendDigest]) error {
	return nil
}
func (*Events) Create(context.Context, pgx.Tx, Event) {}

func createEvent(context.Context, pgx.Tx, Event) {}
func cleanup(context.Context) error              { return nil }
