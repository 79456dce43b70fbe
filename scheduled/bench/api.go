package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

var apiBench = Bench{
	Name: "api", Short: "How fast tasks are scheduled over HTTP, and what the workers notice of it", Default: 10000,
	Long: `Schedules tasks for a later time in turns with the store and over HTTP, with a key: one task a call on 8
connections, and 1,000 tasks a call. Then one node runs a task every 10 ms for 5 seconds, while 8 clients call the API
as fast as it answers. The API, the clients and the node are one process.`,
	Run: runAPI,
}

const apiBulk = api.MaxTasks

func runAPI(ctx context.Context, config Config) (Result, error) {
	config = config.withDefaults(10000)
	result := Result{Bench: "api", Verified: "every task is QUEUED once, with one line of changes; " + verified}
	figures := map[string][]float64{}
	for round := range config.Rounds {
		one, err := apiRound(ctx, config)
		if err != nil {
			return result, err
		}
		one["single_ratio"] = one["api_single_per_s"] / one["store_single_per_s"]
		one["bulk_ratio"] = one["api_bulk_per_s"] / one["store_bulk_per_s"]
		for name, figure := range one {
			figures[name] = append(figures[name], figure)
		}
		config.Say("round %d of %d: single %.0f/s over HTTP, %.0f/s with the store; bulk %.0f/s and %.0f/s; "+
			"delay p99 %.1f ms", round+1, config.Rounds, one["api_single_per_s"], one["store_single_per_s"],
			one["api_bulk_per_s"], one["store_bulk_per_s"], one["delay_p99_ms"])
	}
	for _, figure := range []struct{ name, meaning string }{
		{"api_single_per_s", "tasks a second over HTTP, one a call, 8 connections"},
		{"store_single_per_s", "tasks a second with the store, one a call, 8 connections"},
		{"single_ratio", "api_single_per_s / store_single_per_s"},
		{"api_bulk_per_s", "tasks a second over HTTP, 1,000 a call"},
		{"store_bulk_per_s", "tasks a second with the store, 1,000 a call"},
		{"bulk_ratio", "api_bulk_per_s / store_bulk_per_s"},
		{"delay_p50_ms", "ms from due to start while the API is under full load, the median"},
		{"delay_p99_ms", "ms, 99 of 100"},
		{"load_per_s", "calls a second during that"},
	} {
		result.add(figure.name, median(figures[figure.name]), figure.meaning)
	}
	return result, nil
}

func apiRound(ctx context.Context, config Config) (figures map[string]float64, err error) {
	figures = map[string]float64{}
	err = within(ctx, config, func(d *database) (err error) {
		service, err := startAPI(ctx, d)
		if err != nil {
			return err
		}
		defer service.stop()
		tasks := store.New(store.Config{Service: "bench"})
		at := time.Now().Add(24 * time.Hour)
		if figures["store_single_per_s"], err = each(ctx, config.Tasks, func(i int) error {
			_, err := tasks.Schedule(ctx, d.Pool, benchTask("store", i, at))
			return err
		}); err != nil {
			return err
		}
		if figures["api_single_per_s"], err = each(ctx, config.Tasks, func(i int) error {
			return service.put(ctx, benchTask("api", i, at))
		}); err != nil {
			return err
		}
		n := max(config.Tasks, apiBulk)
		if figures["store_bulk_per_s"], err = bulk(n, apiBulk, func(from, to int) error {
			_, err := tasks.ScheduleMany(ctx, d.Pool, benchTasks("store bulk", from, to, at))
			return err
		}); err != nil {
			return err
		}
		if figures["api_bulk_per_s"], err = bulk(n, apiBulk, func(from, to int) error {
			return service.post(ctx, benchTasks("api bulk", from, to, at))
		}); err != nil {
			return err
		}
		if err := d.verifyScheduled(ctx, 2*config.Tasks+2*n); err != nil {
			return err
		}
		return apiLoad(ctx, config, d, service, figures)
	})
	return figures, err
}

// apiLoad measures the delays of a node while clients keep the API busy.
func apiLoad(
	ctx context.Context, config Config, d *database, service *apiService, figures map[string]float64,
) (err error) {
	const count = 500
	n, err := startNode(ctx, d, config, 0, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	if err := n.warm(ctx, d); err != nil {
		return err
	}
	ran := n.ran.Load()
	spread := fmt.Sprintf("clock_timestamp() + interval '2 seconds' + n * interval '%f seconds'", preciseGap.Seconds())
	if err := d.insert(ctx, "delayed", count, spread); err != nil {
		return err
	}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var calls atomic.Int64
	var clients sync.WaitGroup
	began, failures := time.Now(), make(chan error, scheduleConns)
	for range scheduleConns {
		clients.Go(func() {
			for loading.Err() == nil {
				task := benchTask("load", int(calls.Add(1)), time.Now().Add(24*time.Hour))
				if err := service.put(loading, task); err != nil && loading.Err() == nil {
					failures <- err
					return
				}
			}
		})
	}
	err = n.finished(ctx, ran+count, time.Minute)
	figures["load_per_s"] = perSecond(int(calls.Load()), time.Since(began))
	stop()
	clients.Wait()
	close(failures)
	if err = errors.Join(err, <-failures); err != nil {
		return err
	}
	delays, err := d.delays(ctx, "delayed", count)
	if err != nil {
		return err
	}
	figures["delay_p50_ms"], figures["delay_p99_ms"] = quantile(delays, 0.5), quantile(delays, 0.99)
	return nil
}

// apiService is the API with a key, as serve --api has it.
type apiService struct {
	server *httptest.Server
	secret string
	stop   func()
}

func startAPI(ctx context.Context, d *database) (*apiService, error) {
	pool, err := d.NewPool(ctx, scheduleConns)
	if err != nil {
		return nil, err
	}
	known := keys.New(keys.Config{})
	secret, _, err := known.Create(ctx, pool, keys.NewKey{Name: "bench", Scopes: keys.Scopes(), Rate: keys.MaxRate})
	if err != nil {
		pool.Close()
		return nil, err
	}
	served, err := api.New(api.Config{
		Pool: pool, Keys: known, AddressRate: keys.MaxRate, Logger: slog.New(slog.DiscardHandler),
		Authenticate: api.ByKey(keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: known, DB: pool})),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	server := httptest.NewServer(served.Handler())
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = scheduleConns
	return &apiService{server: server, secret: secret, stop: func() {
		server.Close()
		pool.Close()
	}}, nil
}

func (s *apiService) put(ctx context.Context, task store.Task) error {
	return s.call(ctx, http.MethodPut, "/v1/tasks/"+task.ID, apiTask(task))
}

func (s *apiService) post(ctx context.Context, tasks []store.Task) error {
	bodies := make([]map[string]any, len(tasks))
	for i, task := range tasks {
		bodies[i] = apiTask(task)
		bodies[i]["id"] = task.ID
	}
	return s.call(ctx, http.MethodPost, "/v1/tasks/bulk", map[string]any{"tasks": bodies})
}

func apiTask(task store.Task) map[string]any {
	return map[string]any{"payload": task.Payload, "scheduled_at": task.At}
}

func (s *apiService) call(ctx context.Context, method, path string, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a call: %w", err)
	}
	target := s.server.URL + (&url.URL{Path: path}).EscapedPath()
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("make a call: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+s.secret)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.server.Client().Do(request)
	if err != nil {
		return fmt.Errorf("call the API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = errors.New(string(text))
	}
	if err != nil {
		return fmt.Errorf("call the API: answer %d: %w", response.StatusCode, err)
	}
	return nil
}
