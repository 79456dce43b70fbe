package webhook

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tasktable/tasktable/handlers"
)

// A circuit opens when more than half of at least minCalls calls within the window failed. It stays open for openFor.
// Then one call goes through as a probe, and its outcome closes the circuit or opens it again.
const (
	minCalls  = 20
	window    = time.Minute
	windowBit = 10 * time.Second // the window slides by steps of this length
	openFor   = 30 * time.Second
	spread    = 30 * time.Second // tasks come back within so much time after a circuit's end
)

// A breaker that nobody asked for idleAfter has no call in its window, so it is forgotten.
const (
	maxHosts  = 1000
	idleAfter = 2 * window
)

// breakers has a circuit breaker for each host that was called lately. It is safe for concurrent use.
type breakers struct {
	mu     sync.Mutex
	byHost map[string]*breaker
}

type breaker struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	until   atomic.Int64 // when the circuit was opened last, plus openFor, in nanoseconds since 1970
	used    time.Time    // guarded by breakers.mu
}

func newBreakers() *breakers { return &breakers{byHost: map[string]*breaker{}} }

// uncountedError is an error that says nothing about the host.
type uncountedError struct{ error }

func (e uncountedError) Unwrap() error { return e.error }

// of returns the breaker of a host.
func (b *breakers) of(host string, now time.Time) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.byHost[host]
	if found == nil {
		if len(b.byHost) >= maxHosts {
			b.forget(now)
		}
		found = newBreaker(host)
		b.byHost[host] = found
	}
	found.used = now
	return found
}

// forget drops the breakers of idle hosts. If no host is idle, it drops the one that was used the longest time ago.
func (b *breakers) forget(now time.Time) {
	oldest := ""
	for host, known := range b.byHost {
		if now.Sub(known.used) > idleAfter {
			delete(b.byHost, host)
		} else if oldest == "" || known.used.Before(b.byHost[oldest].used) {
			oldest = host
		}
	}
	if len(b.byHost) >= maxHosts {
		delete(b.byHost, oldest)
	}
}

func newBreaker(host string) *breaker {
	made := &breaker{}
	made.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: host, MaxRequests: 1, Interval: window, BucketPeriod: windowBit, Timeout: openFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			ended := counts.TotalSuccesses + counts.TotalFailures
			return ended >= minCalls && 2*counts.TotalFailures > ended
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				made.until.Store(time.Now().Add(openFor).UnixNano())
			}
		},
		IsExcluded: func(err error) bool {
			var uncounted uncountedError
			return errors.As(err, &uncounted)
		},
	})
	return made
}

// call runs do unless the circuit of the host is open. An error of do counts as a failure of the host, unless it is an
// uncountedError. If the circuit is open, call returns a snooze that names the host.
func (b *breakers) call(host string, do func() error) error {
	found := b.of(host, time.Now())
	_, err := found.circuit.Execute(func() (struct{}, error) { return struct{}{}, do() })
	probing := errors.Is(err, gobreaker.ErrTooManyRequests)
	if !probing && !errors.Is(err, gobreaker.ErrOpenState) {
		return err
	}
	until := time.Unix(0, found.until.Load())
	state := "is open until " + until.UTC().Format(time.RFC3339)
	if probing {
		state = "waits for the outcome of one call"
	}
	return fmt.Errorf("host %s does not answer; its circuit %s: %w", host, state,
		handlers.Snooze(snoozeFor(time.Now(), until, rand.Float64())))
}

// snoozeFor spreads the tasks that wait for one host, so that not all of them come back in one moment. random is from 0
// to 1. After until a probe may be running, so the wait is at least a second.
func snoozeFor(now, until time.Time, random float64) time.Duration {
	return max(until.Sub(now), time.Second) + time.Duration(random*float64(spread))
}
