package worker

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Config is the configuration of a worker. Codec and Tracer may be nil.
type Config struct {
	EnginePool     *pgxpool.Pool
	Pool           *pgxpool.Pool // gives transactional handlers their transactions
	Statements     taskdb.Queries
	Number         int64  // of the node
	Service        string // in follow-up tasks
	Handlers       *handlers.Registry
	Slots          map[string]int // by queue
	ShareSlots     bool
	StrictQueues   []string       // which get free slots first
	TypeSlots      map[string]int // of the types with a limit
	Places         int            // how many transactional handlers run at once
	StartAllowance time.Duration
	HungAfter      time.Duration    // see HungAfter
	Backoff        handlers.Backoff // of types that have none of their own
	Codec          store.Codec
	LogErrors      bool // whether log lines of attempts have the text of the error
	Tracer         trace.TracerProvider
	Clock          *session.Clock
	Quiet          *quiet.Switch
	Failures       *failures.Notifier
	Metrics        *metrics.Metrics
	Log            *slog.Logger

	Stuck    func(why string) // tells the node's health which slots are lost until the process ends; "": none
	Alive    func() bool      // whether the node may still work
	Frees    loop.Signal      // tells the leader that a batch's place is free
	DueSoon  func()           // tells the leader that a task is due again at once
	Answered func(error)      // notes the error of each statement on the engine's pool, or nil
}
