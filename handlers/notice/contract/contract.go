// Package contract has the payloads of package notice.
package contract

// Notice tells a recipient what happened to tasks. The database schedules it, by the rules of package rules. Its causes
// are in the table notice_causes, by the id of the task.
type Notice struct {
	// Rule is the name of the rule. A test has none.
	Rule string `json:"rule,omitempty"`
	// Recipient is the name of the recipient. It is required.
	Recipient string `json:"recipient"`
	// Test says that this notice tells nothing but that notices arrive. It is sent in quiet hours and to a muted
	// recipient, too.
	Test bool `json:"test,omitempty"`
}

// TaskType is NOTICE.
func (Notice) TaskType() string { return "NOTICE" }

// WatchID is the id of the recurring task that looks for what is late, missed, unsuccessful or recovered. Notices run
// in its queue.
const WatchID = "notice-watch"

// Watch looks for what is late, missed, unsuccessful or recovered. It is the payload of a recurring task.
type Watch struct{}

// TaskType is NOTICE_WATCH.
func (Watch) TaskType() string { return "NOTICE_WATCH" }
