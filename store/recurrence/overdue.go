package recurrence

import "time"

// Missed counts the fires that have passed without a success. success is the time of the last success, or nil. The
// count begins after it. If there is none, or none after since, the count begins after the first fire after since, so
// that a task that has just begun has missed nothing. Missed counts fires up to and including until, and at most most.
func (r *Rule) Missed(success *time.Time, since, until time.Time, most int) int {
	from := r.Next(since)
	if success != nil && success.After(since) {
		from = *success
	}
	if from.IsZero() {
		return 0
	}
	fires, _ := r.Between(from, until, most)
	return len(fires)
}
