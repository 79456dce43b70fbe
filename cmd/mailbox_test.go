package cmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mailbox is an HTTP server that keeps what it gets. It answers 500 and repeats the request below /refuses, as a
// careless server does.
type mailbox struct {
	*httptest.Server

	t    *testing.T
	mu   sync.Mutex
	mail []letter
}

type letter struct{ path, header, body string }

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	m := &mailbox{t: t}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var header strings.Builder
	_ = r.Header.Write(&header)
	if strings.HasPrefix(r.URL.Path, "/refuses") {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, r.URL.Path+header.String()+string(body))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mail = append(m.mail, letter{r.URL.Path, header.String(), string(body)})
}

func (m *mailbox) all() []letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mail)
}

// gets waits for a letter. Each second it does what hastens it.
func (m *mailbox) gets(is func(letter) bool, hasten func()) {
	m.t.Helper()
	limit, look, again := time.NewTimer(waitLimit), time.NewTicker(10*time.Millisecond), time.NewTicker(time.Second)
	defer limit.Stop()
	defer look.Stop()
	defer again.Stop()
	for {
		if slices.ContainsFunc(m.all(), is) {
			return
		}
		select {
		case <-look.C:
		case <-again.C:
			if hasten != nil {
				hasten()
			}
		case <-limit.C:
			m.t.Fatalf("it is not among %q", m.all())
		}
	}
}
