// Package contract is the payload of package command, and the result that its tasks leave. It is for services that
// schedule commands and do not run them.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers/internal/payload"
)

// Type is the type of the tasks. "EXEC:" and the name of a command is a type, too: see Exec.
const Type = "EXEC"

const (
	maxArgs      = 100
	maxArgsBytes = 64 << 10
	minTimeout   = 100 * time.Millisecond
	maxTimeout   = 7 * 24 * time.Hour
)

// Exec is one run of a command of the node's configuration. It has no key, so each Schedule makes a task of its own
// with a new id, unless the caller gives the task an ID.
//
// By SQL and over HTTP a task may also have the type "EXEC:" and the name, and no field command. Only nodes that have
// the command run such a task. A task of type EXEC runs on any node that has commands, and fails on a node that lacks
// this one.
//
// A payload that breaks a rule cannot be encoded as JSON, so Schedule refuses it. SQL functions do not know the rules.
// The handler checks them again, and a task that breaks one fails for good.
type Exec struct {
	// Command is the name of a command of the node's configuration. It is required.
	Command string `json:"command"`
	// Args come after the arguments of the configuration, which must allow them. There are at most 100, with at most 64
	// KiB together and no NUL. Each is one argument, whatever characters it has, because no shell reads it.
	Args []string `json:"args,omitempty"`
	// Timeout is a text such as "90s" or "2h", from 100 ms to 7 days. In JSON it may also be a number of seconds. It
	// can only shorten the timeout of the configuration. Default (""): the configuration's.
	Timeout string `json:"timeout,omitempty"`
}

// TaskType is EXEC.
func (Exec) TaskType() string { return Type }

// exec is an Exec without methods.
type exec Exec

// fieldNames are the names of the fields in JSON.
var fieldNames = []string{"args", "command", "timeout"}

// MarshalJSON returns the error of Check for a payload that breaks a rule.
func (e Exec) MarshalJSON() ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return json.Marshal(exec(e))
}

// UnmarshalJSON takes the command of a type such as EXEC:backup, too.
func (e *Exec) UnmarshalJSON(text []byte) error {
	var read struct {
		exec

		Type    string          `json:"type"`
		Timeout payload.Timeout `json:"timeout"` // instead of exec's
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return payload.DecodeError(err)
	}
	*e = Exec(read.exec)
	e.Timeout = string(read.Timeout)
	if name, ok := strings.CutPrefix(read.Type, Type+":"); ok {
		if e.Command != "" && e.Command != name {
			return errors.New("payload field command must be absent or the name in the type")
		}
		e.Command = name
	}
	return nil
}

// CheckName returns an error if the text cannot be the name of a command. The error begins with the rule.
func CheckName(name string) error { return payload.CheckName(name) }

// Check returns an error that names the first field that breaks a rule, and the rule. It does not contain the field's
// value, because errors go to logs.
func (e Exec) Check() error {
	if err := CheckName(e.Command); err != nil {
		return fmt.Errorf("payload field command %w", err)
	}
	size := 0
	for _, arg := range e.Args {
		size += len(arg)
	}
	switch {
	case len(e.Args) > maxArgs || size > maxArgsBytes:
		return fmt.Errorf("payload field args must be at most %d arguments with at most %d bytes together", maxArgs,
			maxArgsBytes)
	case slices.ContainsFunc(e.Args, func(arg string) bool { return strings.Contains(arg, "\x00") }):
		return errors.New("payload field args must not have a NUL")
	case e.Timeout == "":
		return nil
	}
	if d, err := time.ParseDuration(e.Timeout); err != nil || d < minTimeout || d > maxTimeout {
		return fmt.Errorf("payload field timeout must be a duration from %s to %s, such as 90s", minTimeout, maxTimeout)
	}
	return nil
}

// TimeoutAtMost returns the timeout, or most if the payload has none or a longer one.
func (e Exec) TimeoutAtMost(most time.Duration) time.Duration {
	if d, err := time.ParseDuration(e.Timeout); err == nil {
		return min(d, most)
	}
	return most
}

// CheckJSON returns the error with which every node would refuse the payload of a task. It also refuses a field that an
// Exec does not have, because such a field is usually a typing mistake. It does not know the commands of the nodes.
func CheckJSON(text []byte) error { return payload.CheckJSON[Exec](text, fieldNames) }

// Result is the result of a completed task.
type Result struct {
	ExitCode int     `json:"exit_code"`
	Seconds  float64 `json:"seconds"` // how long the command ran
	// Stdout and Stderr are the ends of the command's output. The configuration says how many bytes of each are kept.
	// U+FFFD replaces NUL and all that is not UTF-8. "[NAME]" replaces the value of the secret NAME.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// StdoutBytes and StderrBytes are how much the command wrote.
	StdoutBytes int64 `json:"stdout_bytes,omitempty"`
	StderrBytes int64 `json:"stderr_bytes,omitempty"`
}
