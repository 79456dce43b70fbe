// Command service is a complete program that uses Tasktable: it has one pool, an HTTP server and a node, and stops
// them in the right order. Copy it and replace the orders by your own entities.
//
//	DATABASE_URL=postgres://… ADDR=:8080 go run ./handlers/community/service
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// stopWithin is how long running requests may take after the signal to stop. The node's own time to stop is set in
// scheduled.Config.
const stopWithin = 10 * time.Second

// maxConns is the size of the pool that requests and handlers share. The number of transactional handlers that run at
// the same time is at most this size minus 2. pgxpool's default is 4, or the number of cores if that is more.
const maxConns = 20

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err == nil {
		err = run(ctx, os.Getenv("DATABASE_URL"), listener)
	}
	if err != nil {
		slog.Error("service ends", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, url string, listener net.Listener) error {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the URL of the database: %w", err)
	}
	settings.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return fmt.Errorf("open the pool: %w", err)
	}
	defer pool.Close() // last, because requests and handlers use it until they end
	if err := migrations.Up(ctx, pool, ""); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, tableSQL); err != nil {
		return fmt.Errorf("make the table of orders: %w", err)
	}

	registry, err := handlers.NewRegistry(handlers.HandleTx(remind))
	if err != nil {
		return err
	}
	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Service: "orders"})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", node.LiveHandler())
	mux.Handle("GET /readyz", node.ReadyHandler())
	mux.Handle("POST /orders/{id}", orders{pool, store.New(store.Config{Service: "orders"})})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	// If the server or the node ends, it stops the other one too.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- server.Serve(listener)
	}()
	// The node has a context of its own, because it ends after the server. So a task that the last request schedules
	// for now still runs here.
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	ran := make(chan error, 1)
	go func() {
		defer stop()
		ran <- node.Run(nodeCtx)
	}()

	<-ctx.Done()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	err = server.Shutdown(within)
	stopNode()
	err = errors.Join(err, <-ran)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

const tableSQL = `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, reminded_at timestamptz)`

// OrderReminder is the payload of a reminder about an order.
type OrderReminder struct {
	OrderID string `json:"order_id"`
}

// TaskType is ORDER_REMINDER.
func (OrderReminder) TaskType() string { return "ORDER_REMINDER" }

// TaskKey is the order's id, so that each order has one reminder.
func (r OrderReminder) TaskKey() string { return r.OrderID }

// orders takes new orders.
type orders struct {
	pool  *pgxpool.Pool
	tasks *store.Store
}

// ServeHTTP stores an order and schedules its reminder in one transaction, so that both exist afterwards, or neither
// does.
func (o orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	err := pgx.BeginFunc(r.Context(), o.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(r.Context(), `INSERT INTO orders (id) VALUES ($1) ON CONFLICT (id) DO NOTHING`, id)
		if err != nil {
			return err
		}
		_, err = o.tasks.Schedule(r.Context(), tx, store.Task{Payload: OrderReminder{id}, Entity: "order:" + id})
		return err
	})
	switch {
	case errors.Is(err, store.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		slog.Error("order not stored", "order", id, "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// remind runs when the reminder is due. Its writes commit together with the completion of the task.
func remind(ctx context.Context, tx pgx.Tx, t *handlers.Task[OrderReminder]) error {
	_, err := tx.Exec(ctx, `UPDATE orders SET reminded_at = $2 WHERE id = $1`, t.Payload.OrderID, t.StartedAt)
	return err
}
