// Package backoff reads the text that says how long to wait before a retry, such as "1m" or
// "10s x3 max 1h jitter 25%". It is the form of the field Backoff of a task.
//
// The first part is the wait after the first failed attempt: a number from 1 to 9999 with s, m or h. Three parts may
// follow, in this order: x and a factor from 1 to 10.99, by which each wait is longer than the one before; max and the
// longest wait; jitter and the greatest random part that is added, from 0% to 100%.
package backoff

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

// Rule is the rule that a text must follow, for errors and forms.
const Rule = "must be a wait such as 1m, or 10s x3 max 1h jitter 25%"

// The database has the same expression in the domain task_backoff.
var syntax = regexp.MustCompile(`^([1-9][0-9]{0,3}[smh])(?: x((?:[1-9]|10)(?:[.][0-9]{1,2})?))?` +
	`(?: max ([1-9][0-9]{0,3}[smh]))?(?: jitter ([1-9]?[0-9]|100)%)?$`)

// Policy says how long to wait before each retry.
type Policy struct {
	First  time.Duration // the wait after the first failed attempt
	Factor float64       // by which each wait is longer than the one before, 1 or more
	Max    time.Duration // the longest wait, without jitter
	Jitter float64       // the greatest random part that is added, as a part of the wait
}

// maxWait is the longest wait of a text that names none.
const maxWait = 24 * time.Hour

// Default is the policy of a task, if neither the task nor its type nor the node has another: 10 s, 30 s, 90 s, 270 s
// and so on, at most an hour, plus a random part of up to a quarter, so that tasks that failed together do not come
// back together. The ten attempts that a task has by default take 4 to 5 hours.
func Default() Policy {
	return Policy{First: 10 * time.Second, Factor: 3, Max: time.Hour, Jitter: 0.25}
}

// Parse reads a text. Without a factor each wait is the same, without max the longest is 24 hours or the first, and
// without jitter nothing is added. The error wraps store.ErrInvalid.
func Parse(text string) (Policy, error) {
	found := syntax.FindStringSubmatch(text)
	if found == nil {
		return Policy{}, check.Invalid("backoff", Rule, fmt.Sprintf("%.100q", text))
	}
	first, _ := time.ParseDuration(found[1]) // syntax allows only numbers that can be parsed
	policy := Policy{First: first, Factor: 1, Max: max(maxWait, first)}
	if found[2] != "" {
		policy.Factor, _ = strconv.ParseFloat(found[2], 64)
	}
	if found[3] != "" {
		policy.Max, _ = time.ParseDuration(found[3])
	}
	if found[4] != "" {
		percent, _ := strconv.Atoi(found[4])
		policy.Jitter = float64(percent) / 100
	}
	return policy, nil
}

// Wait is the wait after a failed attempt. The first attempt has the number 1. random, from 0 to 1, chooses the random
// part.
func (p Policy) Wait(attempt int, random float64) time.Duration {
	wait := min(float64(p.First)*math.Pow(p.Factor, float64(max(attempt, 1)-1)), float64(p.Max))
	return time.Duration(wait * (1 + p.Jitter*random))
}
