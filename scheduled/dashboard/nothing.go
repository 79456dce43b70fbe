package dashboard

import "net/http"

// nothing is the http.ResponseWriter of pages that are read, and not written. The mux writes to it if it has no page.
type nothing struct{}

func (nothing) Header() http.Header            { return http.Header{} }
func (nothing) Write(text []byte) (int, error) { return len(text), nil }
func (nothing) WriteHeader(int)                {}
