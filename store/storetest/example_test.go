package storetest_test

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// A test has its own t, and needs no end:
//
//	func TestSchedule(t *testing.T) {
//		pool := storetest.Pool(t)
//
// The database is migrated, empty, and nobody else's.
func ExamplePool() {
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{})
	receipt, err := tasks.Schedule(context.Background(), pool, store.Task{
		ID: "first", Payload: store.JSON(`{"type":"LOG","message":"hi"}`),
	})
	fmt.Println(receipt.Outcome, err)
	rows, err := inspect.New(store.Config{}).List(context.Background(), pool, inspect.Filter{})
	fmt.Println(len(rows), err)
	// Output:
	// created <nil>
	// 1 <nil>
}
