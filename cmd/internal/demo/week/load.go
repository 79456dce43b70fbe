package week

import (
	"fmt"
	"math"
	"time"
)

// tenants are the communities of the week.
var tenants = []string{"book-club", "chess-club", "city-runners", "film-nights", "garden-friends", "home-cooks"}

// Tenants returns the tenants of the week's tasks. No task of the demo's script is theirs.
func Tenants() []string { return append([]string(nil), tenants...) }

// moments returns n times of a span. More of them are at noon and in the evening than at night.
func (w *week) moments(many int, from, to time.Time) []time.Time {
	times := make([]time.Time, 0, many)
	for len(times) < many {
		at := from.Add(time.Duration(w.random.Float64() * float64(to.Sub(from))))
		if w.random.Float64() < busy(at) {
			times = append(times, micros(at))
		}
	}
	return times
}

// busy is the load of a time of the day, from 0 to 1.
func busy(at time.Time) float64 {
	at = at.UTC()
	hour := float64(at.Hour()) + float64(at.Minute())/60
	hill := func(top, width float64) float64 { return math.Exp(-(hour - top) * (hour - top) / (2 * width * width)) }
	return min(0.06+0.7*hill(11.5, 2)+0.9*hill(18.5, 1.8), 1)
}

func (w *week) tenant() string { return tenants[w.random.IntN(len(tenants))] }

// members is how many members the communities have.
const members = 400

func memberID(i int) string { return fmt.Sprintf("member-%03d", i) }

func (w *week) member() string { return memberID(1 + w.random.IntN(members-1)) }

// host is the member who hosts a community, and who greets.
const host = 0

func addressOf(member string) string { return member + "@example.org" }

// newID is a UUID of version 7, as tasks without a key have.
func (w *week) newID(at time.Time) string {
	high := uint64(at.UnixMilli())<<16 | 0x7000 | uint64(w.random.IntN(1<<12))
	low := w.random.Uint64()>>2 | 1<<63
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
}

// between is a random duration.
func (w *week) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.random.Int64N(int64(to-from)))
}

// types are those that the week's nodes have handlers for.
func types() []string {
	return []string{"PUBLISH_EVENT", "PUBLISH_SCHEDULED_POST", "SEND_EVENT_REMINDER", "SEND_DIRECT_MESSAGE",
		"WELCOME_MEMBER", "SEND_EMAIL", "STATUS_UPDATE", "GEO_SUMMARY_REFRESH", "TOKEN_CLEANUP", "ACCOUNT_SUSPENSION",
		"PURGE", "DEACTIVATED_ACCT_PURGE", "MOMENT_CLEANUP", "MOMENT_PURGE", "MESSAGE_EXPIRY", "LOG", "NOTICE",
		"HTTP_REQUEST", PartnerSync, "HEADCOUNT", "PRINT_BADGE"}
}

// chance is true in the given percentage of calls.
func (w *week) chance(percent int) bool { return w.random.IntN(100) < percent }
