package form

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// DefaultsOf returns the fields of the task with OfType as the defaults of a type, or of store.AllTypes. The error
// wraps store.ErrInvalid. Without a field it is an error, because such defaults would do nothing.
func DefaultsOf(name string, t store.Task) (store.Defaults, error) {
	made := store.Defaults{Type: name, Queue: t.Queue, Priority: t.Priority, Expiration: t.Expiration,
		ExpectedExecutionTime: t.ExpectedExecutionTime, MaxAttempts: t.MaxAttempts, Backoff: t.Backoff,
		Timeout: t.Timeout, Retention: t.Retention, Group: t.Group}
	if made == (store.Defaults{Type: name}) {
		return made, fmt.Errorf("%w: defaults must have a field", store.ErrInvalid)
	}
	return made, made.Check()
}

// DefaultsText is the defaults as "max_attempts 3, backoff 1m".
func DefaultsText(defaults store.Defaults) string {
	var texts []string
	task := defaults.On(store.Task{})
	for _, field := range Fields {
		if text := field.Text(task, time.UTC); field.OfType && text != "" && text != "0" {
			texts = append(texts, field.Name+" "+text)
		}
	}
	return strings.Join(texts, ", ")
}
