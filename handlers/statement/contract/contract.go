// Package contract is the payload of package statement, and the result that its tasks leave. It is for services that
// schedule statements and do not run them.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tasktable/tasktable/handlers/internal/payload"
)

// Type is the type of the tasks. "RUN_SQL:" and the name of a statement is a type, too: see RunSQL.
const Type = "RUN_SQL"

// RunSQL is one run of a statement of the node's configuration. It has no key, so each Schedule makes a task of its own
// with a new id, unless the caller gives the task an ID.
//
// By SQL and over HTTP a task may also have the type "RUN_SQL:" and the name, and no field statement. Only nodes that
// have the statement run such a task. A task of type RUN_SQL runs on any node that has statements, and fails on a node
// that lacks this one.
//
// A payload that breaks a rule cannot be encoded as JSON, so Schedule refuses it. SQL functions do not know the rules.
// The handler checks them again, and a task that breaks one fails for good.
type RunSQL struct {
	// Statement is the name of a statement of the node's configuration. It is required.
	Statement string `json:"statement"`
	// Params are the values of the statement's parameters: all of them, each of the type that the configuration
	// declares. The documentation of package statement lists the types.
	Params map[string]any `json:"params,omitempty"`
}

// TaskType is RUN_SQL.
func (RunSQL) TaskType() string { return Type }

// runSQL is a RunSQL without methods.
type runSQL RunSQL

// fieldNames are the names of the fields in JSON.
var fieldNames = []string{"params", "statement"}

// MarshalJSON returns the error of Check for a payload that breaks a rule.
func (r RunSQL) MarshalJSON() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	return json.Marshal(runSQL(r))
}

// UnmarshalJSON takes the statement of a type such as RUN_SQL:cleanup, too. It keeps the params as json.RawMessage,
// because a float64 would round large numbers.
func (r *RunSQL) UnmarshalJSON(text []byte) error {
	var read struct {
		Type      string                     `json:"type"`
		Statement string                     `json:"statement"`
		Params    map[string]json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return payload.DecodeError(err)
	}
	if name, ok := strings.CutPrefix(read.Type, Type+":"); ok {
		if read.Statement != "" && read.Statement != name {
			return errors.New("payload field statement must be absent or the name in the type")
		}
		read.Statement = name
	}
	*r = RunSQL{Statement: read.Statement}
	for name, value := range read.Params {
		if r.Params == nil {
			r.Params = map[string]any{}
		}
		r.Params[name] = value
	}
	return nil
}

// CheckName returns an error if the text cannot be the name of a statement. The error begins with the rule.
func CheckName(name string) error { return payload.CheckName(name) }

// Check returns an error that names the first field that breaks a rule, and the rule.
func (r RunSQL) Check() error {
	if err := CheckName(r.Statement); err != nil {
		return fmt.Errorf("payload field statement %w", err)
	}
	return nil
}

// CheckJSON returns the error with which every node would refuse the payload of a task. It also refuses a field that a
// RunSQL does not have, because such a field is usually a typing mistake. It does not know the statements of the nodes.
func CheckJSON(text []byte) error { return payload.CheckJSON[RunSQL](text, fieldNames) }

// Result is the result of a completed task.
type Result struct {
	// Rows is how many rows the statement inserted, updated, deleted or returned.
	Rows int64 `json:"rows"`
	// First are the first rows that the statement returned, as many as the configuration keeps. A value is a JSON
	// number, boolean or null, the JSON of a json or jsonb column, or the text that Postgres writes.
	First []map[string]any `json:"first,omitempty"`
	// Truncated says that the statement returned more rows than First has.
	Truncated bool `json:"truncated,omitempty"`
}
