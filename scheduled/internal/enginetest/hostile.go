package enginetest

// Hostile is an error whose methods panic, as those of a nil pointer in an error interface may. Each field says of
// which method.
type Hostile struct{ InError, InAs, InUnwrap bool }

func (h *Hostile) Error() string {
	if h.InError {
		panic("no text")
	}
	return "hostile"
}

// As panics, or says that the error is no other.
func (h *Hostile) As(any) bool {
	if h.InAs {
		panic("no As")
	}
	return false
}

// Unwrap panics, or says that the error wraps none.
func (h *Hostile) Unwrap() error {
	if h.InUnwrap {
		panic("no Unwrap")
	}
	return nil
}

// Spiteful is a payload whose methods panic.
type Spiteful struct{ Key bool }

// TaskType is SPITEFUL.
func (Spiteful) TaskType() string { return "SPITEFUL" }

// TaskKey panics, if Key is set.
func (s Spiteful) TaskKey() string {
	if s.Key {
		panic("no key")
	}
	return "key"
}

// MarshalJSON panics.
func (Spiteful) MarshalJSON() ([]byte, error) { panic("no JSON") }
