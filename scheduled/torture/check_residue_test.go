//go:build unix

package torture

// nothingIsLeft: all ended in time, and left no hold, no River job, no session within a transaction and no goroutine.
func nothingIsLeft(h *history, wrong reportFunc) (samples int) {
	if h.Quiet.IsZero() {
		wrong("", "not all that was left to do was done %s after everything was mended at %s: %q", h.Patience,
			h.offset(h.Calmed), h.Unfinished)
	}
	for _, row := range h.Tasks {
		samples++
		if row.Fence != nil {
			wrong(row.ID, "it is still held, with fence %d", *row.Fence)
		}
	}
	for _, job := range h.Jobs {
		wrong("", "a River job was left: %s", job)
	}
	for _, session := range h.Sessions {
		wrong("", "a session was left within a transaction: %s", session)
	}
	for _, text := range h.Wrong {
		wrong("", "%s", text)
	}
	return samples
}
