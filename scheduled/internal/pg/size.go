package pg

import (
	"sync/atomic"
	"time"
)

// Size is how many rows a step takes. It halves when a step takes too long, and doubles with each step that succeeds,
// so that nothing is tried again in the same size for ever. It is safe for concurrent use. The zero value is not.
type Size struct {
	least, most int
	now         atomic.Int64
}

// NewSize makes a size that lies between these bounds and begins at the greater one.
func NewSize(least, most int) *Size {
	s := &Size{least: least, most: most}
	s.now.Store(int64(most))
	return s
}

// Now is the present size.
func (s *Size) Now() int { return int(s.now.Load()) }

// Grow doubles the size, after a step that succeeded.
func (s *Size) Grow() { s.now.Store(int64(min(2*s.Now(), s.most))) }

// Shrink sets the size to half of that of a step that took too long. It reports whether that is smaller than before.
func (s *Size) Shrink(had int) bool {
	next := max(min(had, s.most)/2, s.least)
	return s.now.Swap(int64(next)) > int64(next)
}

// Pace shrinks the size after a step that took longer than slow, and grows it after one that took less than a quarter.
func (s *Size) Pace(took, slow time.Duration) {
	switch {
	case took > slow:
		s.Shrink(s.Now())
	case took < slow/4:
		s.Grow()
	}
}
