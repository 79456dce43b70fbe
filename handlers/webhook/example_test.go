package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func ExampleVariant() {
	requests, err := webhook.Variant(webhook.Config{
		Secrets: map[string][]string{"orders": {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, // from your secret store
		Deny:    []string{"*.intern.example.org"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(requests)
	fmt.Println(registry.Types(), err)
	// Output: [HTTP_REQUEST] <nil>
}

// A task calls a receiver, which runs on this machine and is therefore allowed. In a test t is its own.
func ExampleSender_Send() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.URL.Path, string(body), r.Header.Get("Tasktable-Task-Id"))
		_, _ = io.WriteString(w, `{"delivery": 9}`)
	}))
	defer receiver.Close()
	requests, err := webhook.Variant(webhook.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(requests)
	if err != nil {
		fmt.Println(err)
		return
	}

	at := time.Date(2035, 5, 1, 9, 0, 0, 0, time.UTC)
	_, err = tasks.Schedule(ctx, tx, store.Task{
		ID: "order-42-paid", At: at, Expiration: 24 * time.Hour,
		Payload: contract.HTTPRequest{URL: receiver.URL + "/hooks", Body: map[string]string{"order": "42"}},
	})
	fmt.Println(err)
	ran := scheduledtest.New(t, tx, registry).RunDueAt(ctx, at)
	fmt.Println(ran[0].Outcome, ran[0].Err)
	// Output:
	// <nil>
	// POST /hooks {"order":"42"} order-42-paid
	// COMPLETED <nil>
}
