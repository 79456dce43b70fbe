package loop

// Signal wakes a loop that receives from it. A nil Signal wakes nothing.
type Signal chan struct{}

// NewSignal makes a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send does not wait. Further signals have no effect until the loop has received the first one.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
