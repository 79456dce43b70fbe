package quiet

import "testing"

// However often it is told, and by how many, it is as it was told last.
func TestQuietIsWhatWasToldLast(t *testing.T) {
	t.Parallel()
	q := New()
	for _, on := range []bool{false, true, true, false, false, true, false} {
		q.Set(on)
		closed := false
		select {
		case <-q.Begins():
			closed = true
		default:
		}
		if since, is := q.Since(); is != on || closed != on || q.On() != on || since.IsZero() == on {
			t.Errorf("told %t: %t, closed %t, since %s", on, is, closed, since)
		}
	}
}
