package scheduled

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"
)

// These constants make the default backoff: 10 s, 30 s, 90 s, 270 s and so on, at most an hour, plus up to a quarter.
const (
	backoffBase   = 10 * time.Second
	backoffFactor = 3
	backoffCap    = time.Hour
	backoffJitter = 0.25
)

// DefaultBackoff returns the wait after a failed attempt. The first attempt has the number 1. The wait is 10 s × 3ⁿ⁻¹
// for attempt n, at most an hour, plus a random part of up to a quarter, so that tasks that failed together do not
// come back together. It ignores the error.
func DefaultBackoff(attempt int, _ error) time.Duration {
	return backoffOf(attempt, rand.Float64())
}

// backoffOf is DefaultBackoff with a given random part from 0 to 1.
func backoffOf(attempt int, random float64) time.Duration {
	delay := float64(backoffBase) * math.Pow(backoffFactor, float64(max(attempt, 1)-1))
	delay = min(delay, float64(backoffCap))
	return time.Duration(delay * (1 + backoffJitter*random))
}

func baseName(path string) string { return filepath.Base(path) }
