package contract_test

import (
	"fmt"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// The same event gives the same id, so an edit of the event finds its reminder. A message cannot be edited,
// and gets a new id.
func Example() {
	fmt.Println(store.IDOf(contract.SendEventReminder{EventID: "42"}))
	fmt.Printf("%q\n", store.IDOf(contract.SendDirectMessage{From: "member-1", To: "member-2", Text: "hi"}))
	// Output:
	// task-SEND_EVENT_REMINDER-42
	// ""
}
