package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// The program serves, runs what it has scheduled, and ends without an error when it is told to.
func TestService(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- run(ctx, pool.Config().ConnString(), listener) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	ask := func(method, path string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode
	}
	until := func(what string, condition func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(30 * time.Second)
		for !condition() {
			select {
			case err := <-done:
				t.Fatalf("the program has ended: %v", err)
			case <-deadline:
				t.Fatalf("not within 30 s: %s", what)
			case <-tick.C:
			}
		}
	}
	until("it is ready", func() bool { return ask(http.MethodGet, "/readyz") == http.StatusOK })
	if code := ask(http.MethodPost, "/orders/42"); code != http.StatusCreated {
		t.Errorf("an order: %d", code)
	}
	if code := ask(http.MethodPost, "/orders/4%002"); code == http.StatusCreated {
		t.Errorf("an order with an id that no task may have: %d", code)
	}
	until("the reminder has run", func() bool {
		var reminded bool
		err := pool.QueryRow(t.Context(), `SELECT reminded_at IS NOT NULL FROM orders WHERE id = '42'`).Scan(&reminded)
		return err == nil && reminded
	})
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
}
