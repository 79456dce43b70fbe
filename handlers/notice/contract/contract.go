// Package contract has the payloads of package notice.
package contract

import "strings"

// Notice tells a recipient what happened to tasks. The database schedules it, by the rules of package rules. Its causes
// are in the table notice_causes, by the id of the task.
type Notice struct {
	// Rule is the name of the rule. A test has none.
	Rule string `json:"rule,omitempty"`
	// Recipient is the name of the recipient. It is required.
	Recipient string `json:"recipient"`
	// Test says that this notice tells nothing but that notices arrive.
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

// Reserved reports whether a task belongs to the engine because of its id or its type. Such a task is a notice or the
// watch. A caller who may only schedule tasks must not touch it, because that would send messages to people, or keep
// them from being told. An empty type stands for no task.
func Reserved(id, taskType string) bool {
	return id == WatchID || strings.HasPrefix(id, "notice/") || taskType == (Notice{}).TaskType() ||
		taskType == (Watch{}).TaskType()
}
