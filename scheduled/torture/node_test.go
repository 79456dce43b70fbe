//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/scheduled"
)

// nodeVariable holds a nodeConfig as JSON where this test binary is to be a node's process.
const nodeVariable = "TASKTABLE_TORTURE_NODE"

// skewVariable says by how many seconds the process's clock is to be wrong. Only the build of TestClocks heeds it.
const skewVariable = "TASKTABLE_TORTURE_SKEW"

// checkSkew sees that the clock is as wrong as it is to be.
func checkSkew() error {
	want, _ := strconv.Atoi(os.Getenv(skewVariable)) // none: 0
	if got := time.Now().Round(0).Sub(wallNow()).Round(time.Second); got != time.Duration(want)*time.Second {
		return fmt.Errorf("the clock is wrong by %s, want %d s", got, want)
	}
	return nil
}

// Exit codes of a node's process, besides 0.
const (
	nodeFailed   = 1
	nodeLeaked   = 3 // goroutines left after Run returned
	nodeOrphaned = 4
)

// What the nodes are configured to. Leases are short, so that freezing a process for three of them does not
// take the whole run.
const (
	startAllowance  = time.Second
	expectedTime    = 3 * time.Second
	leaseTime       = startAllowance + expectedTime
	shutdownTimeout = 3 * time.Second
	retryDelay      = 300 * time.Millisecond // after a failure
	afterDelay      = 600 * time.Millisecond // after one that says how long
	retention       = time.Minute
	snoozeFor       = 1200 * time.Millisecond // longer than the second that lies between two runs of one task
	handlerConns    = 8
)

type nodeConfig struct {
	URL              string
	Session          string // the address for the session, by a wire of its own
	Journal          string
	Queues           map[string]int
	TypeSlots        map[string]int
	Service          string
	Types            []string
	StatementTimeout time.Duration
	Skew             int // in seconds
}

// runNode does not return in a process of a node or of the HTTP API.
func runNode() {
	if text := os.Getenv(nodeVariable); text != "" {
		os.Exit(node(text, serveNode))
	}
	if text := os.Getenv(serverVariable); text != "" {
		os.Exit(node(text, func(ctx context.Context, text string, _ <-chan os.Signal, log *slog.Logger) error {
			return serveCalls(ctx, text, log)
		}))
	}
}

// serving is what a process does until ctx is done.
type serving func(ctx context.Context, text string, told <-chan os.Signal, log *slog.Logger) error

func node(text string, serve serving) int {
	go func() { // the test process holds the other end as long as it lives
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(nodeOrphaned)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	told := make(chan os.Signal, 4) // before anything else: by default SIGTSTP would stop the process
	signal.Notify(told, syscall.SIGTSTP, syscall.SIGCONT)
	defer signal.Stop(told)
	level := slog.LevelInfo
	if os.Getenv("TASKTABLE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	before := goleak.IgnoreCurrent()
	if err := serve(ctx, text, told, log); err != nil {
		log.Error("node failed", "error", err)
		return nodeFailed
	}
	if err := goleak.Find(before); err != nil {
		log.Error("node leaked", "error", err.Error()[:min(len(err.Error()), 4000)])
		return nodeLeaked
	}
	return 0
}

func serveNode(ctx context.Context, text string, told <-chan os.Signal, log *slog.Logger) error {
	var config nodeConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	journal, err := openJournal(config.Journal)
	if err != nil {
		return err
	}
	stalls := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { journal.watchStalls(stalls) })
	defer watching.Wait()
	defer close(stalls)
	if err := checkSkew(); err != nil {
		return err
	}
	journal.write(mark{Kind: markUp, At: wallNow(), PID: os.Getpid()})

	settings, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return fmt.Errorf("parse URL: %w", err)
	}
	settings.MaxConns = handlerConns
	settings.ConnConfig.ConnectTimeout = 3 * time.Second
	if config.StatementTimeout > 0 {
		settings.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(
			config.StatementTimeout.Milliseconds(), 10,
		)
	}
	// Not ctx: the pool outlives the signal.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), settings)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer closeSoon(pool)
	requests, err := webhook.New(webhook.Config{Allow: []string{"127.0.0.1"}, Timeout: hookTimeout,
		Circuit: webhook.Circuit{Open: circuitOpen, MaxOpen: circuitMost}})
	if err != nil {
		return err
	}
	defer requests.CloseIdleConnections()
	w := &worker{journal: journal, pool: pool, requests: requests}
	registry, err := handlers.NewRegistry(w.parts(config.Types)...)
	if err != nil {
		return err
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: pool, Connect: connectApart(settings.ConnConfig, config.Session), Handlers: registry,
		Service: config.Service, Logger: log, OnDead: journal.dead, Queues: config.Queues, TypeSlots: config.TypeSlots,
		StartAllowance:  startAllowance,
		ShutdownTimeout: shutdownTimeout, Retention: retention,
		Backoff: func(int, error) time.Duration { return retryDelay },
	})
	if err != nil {
		return err
	}
	var obeying sync.WaitGroup
	obeying.Go(func() { obey(ctx, told, node, journal) })
	defer obeying.Wait()
	return keepRunning(ctx, node, log)
}

// connectApart opens the session through a wire of its own. The engine's pool then connects with a copy of the
// session's settings, which from then on dial the address of the pools.
func connectApart(settings *pgx.ConnConfig, address string) func(ctx context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		own := settings.Copy()
		var opened atomic.Bool
		dial := own.DialFunc
		own.DialFunc = func(ctx context.Context, network, pools string) (net.Conn, error) {
			if opened.Load() {
				return dial(ctx, network, pools)
			}
			return dial(ctx, network, address)
		}
		conn, err := pgx.ConnectConfig(ctx, own)
		opened.Store(err == nil)
		return conn, err
	}
}

// obey has the node be quiet as the signals say, as serve does. What the journal says is true: the node is quiet when
// it says so, and is so still when it says that it may go on.
func obey(ctx context.Context, told <-chan os.Signal, node *scheduled.Node, journal *journal) {
	for {
		select {
		case <-ctx.Done():
			return
		case signal := <-told:
			if signal == syscall.SIGTSTP {
				node.Quiet()
				journal.write(mark{Kind: markQuiet, At: wallNow()})
			} else {
				journal.write(mark{Kind: markOn, At: wallNow()})
				node.Unquiet()
			}
		}
	}
}

// keepRunning runs the node until ctx is done.
func keepRunning(ctx context.Context, node *scheduled.Node, log *slog.Logger) error {
	for { // a supervisor would start it again while the database is away
		err := node.Run(ctx)
		if err == nil {
			return nil
		}
		log.Warn("node did not begin; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// closeSoon does not wait for a handler that ignores its context and has a connection.
func closeSoon(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
	}
}
