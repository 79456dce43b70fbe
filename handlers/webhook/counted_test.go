package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

// What fails for a reason of its own does not open the circuit of its host.
func TestWhatOpensACircuit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-release
		}
		w.WriteHeader(http.StatusNotFound)
	})
	t.Cleanup(func() { close(release) }) // before the server's end, which waits for its handlers
	for name, test := range map[string]struct {
		url   string
		ended error // how the attempts end
		opens bool
	}{
		"timeouts": {hanging.URL + "/hangs", nil, true},
		// Otherwise the payloads of one tenant could open the circuit for those of others.
		"short timeouts of a payload": {hanging.URL + "/hangs", nil, false},
		"short timeouts of a task":    {hanging.URL + "/hangs", handlers.ErrDeadline, false},
		"refusals to talk":            {"http://127.0.0.1:1", nil, true},
		"cancelled tasks":             {hanging.URL + "/hangs", handlers.ErrCancelled, false},
		"shutdowns":                   {hanging.URL + "/hangs", handlers.ErrInterrupted, false},
		"lost leases":                 {hanging.URL + "/hangs", handlers.ErrLeaseLost, false},
		"4xx":                         {hanging.URL, nil, false},
		"refused by us":               {"http://10.0.0.1", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, payload := webhook.Config{Allow: local}, contract.HTTPRequest{URL: test.url, Timeout: "1m"}
			switch name {
			case "timeouts":
				config.Timeout, payload.Timeout = 100*time.Millisecond, ""
			case "short timeouts of a payload":
				payload.Timeout = "100ms"
			}
			sender := newSender(t, config)
			one := func() error {
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				if test.ended != nil {
					end(test.ended)
				}
				return run(ctx, t, sender, attempt(payload))
			}
			var attempts sync.WaitGroup
			for range 20 {
				attempts.Go(func() {
					if err := one(); err == nil || waits(err) || test.ended != nil && !errors.Is(err, test.ended) {
						t.Errorf("got %v", err)
					}
				})
			}
			attempts.Wait()
			if err := one(); waits(err) != test.opens {
				t.Errorf("got %v, want a wait: %t", err, test.opens)
			}
		})
	}
}
