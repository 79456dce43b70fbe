package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxFormBytes     = 8 << 20  // of a form; a bulk act names up to maxBulk tasks
	maxStrangerBytes = 16 << 10 // of a form of somebody who may not be signed in
	formsOfAll       = 32 << 20 // bytes of forms under way
	formsOfOne       = 16 << 20 // of them of one person
	minFormBytes     = 64 << 10 // as which a small form counts, so that nobody sends many of them slowly
	formWithin       = 5 * time.Second
	formPatience     = 2 * time.Second
)

// takeForm makes room for the form of a person, and gives the person time to send it.
func (d *Dashboard) takeForm(w http.ResponseWriter, r *http.Request, person Person) (give func(), err error) {
	size := int64(maxFormBytes)
	if r.ContentLength >= 0 {
		size = min(max(r.ContentLength, minFormBytes), maxFormBytes)
	}
	if give, err = d.forms.Take(r.Context(), person.Name+"\n"+person.Tenant, size, formPatience); err != nil {
		return nil, tell(http.StatusServiceUnavailable, "Busy",
			"Too many forms are sent at once. Nothing was done. Try again.")
	}
	if r.Body != http.NoBody { // a server may give strangers less time; without a body it may be reading on already
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formWithin))
	}
	return give, nil
}

// readForm reads the fields of a form. No form of the dashboard has several parts.
func readForm(w http.ResponseWriter, r *http.Request, most int64) error {
	unreadable := tell(http.StatusBadRequest, "Not valid", "The form cannot be read.")
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "multipart/") {
		return unreadable
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	err := r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tell(http.StatusRequestEntityTooLarge, "Too much", "The form is too large.")
	case err != nil:
		return unreadable
	}
	for name, values := range r.Form {
		for _, value := range values {
			if !utf8.ValidString(value) || strings.Contains(value, "\x00") { // Postgres takes neither
				text := fmt.Sprintf("%.100s must be UTF-8 without NUL.", strings.ToValidUTF8(name, ""))
				return notValid(text)
			}
		}
	}
	return nil
}
