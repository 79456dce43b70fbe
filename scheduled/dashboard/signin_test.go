package dashboard_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newBoard(t, func(c *dashboard.Config) { c.Prefix = prefix })
		b.get("/").wants(t, http.StatusOK, "Sign in", `action="`+prefix+`/sign-in"`).lacks(t, "Overview")
		if got := b.get("/tasks?status=FAILED"); got.path != prefix+"/?next=%2Ftasks%3Fstatus%3DFAILED" {
			t.Errorf("led to %s", got.path)
		}
		b.post("/sign-in", "key", "tt_wrong").wants(t, http.StatusUnauthorized, "The key is not valid.")
		b.signIn("ann", keys.Read)
		b.get("/").wants(t, http.StatusOK, "Overview", "ann").lacks(t, `/keys"`, `/notices"`)
		b.post("/sign-out").wants(t, http.StatusOK, "Sign in").lacks(t, "Overview")
	}
}

// counted is a body that says how much of it was read.
type counted struct {
	io.Reader

	read int
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.read += n
	return n, err //nolint:wrapcheck // it passes the body on
}

// Forms of strangers take no memory.
func TestFormsOfStrangersAreSmall(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	handler := b.made.Handler()
	for _, path := range []string{"/sign-in", "/look", "/sign-out", "/keys/new", "/tasks/a/cancel", "/none"} {
		body := &counted{Reader: strings.NewReader("key=" + strings.Repeat("%41", 2<<20))}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
		request.Header.Set("Content-Type", formType)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if body.read > 64<<10 {
			t.Errorf("%s: answer %d, after %d bytes", path, answer.Code, body.read)
		}
	}
}

// Somebody who is signed in cannot fill the memory with forms that arrive slowly.
func TestFormsOfOnePerson(t *testing.T) {
	t.Parallel()
	handler := newBoard(t, ofMatrix).made.Handler()
	post := func(person string, body io.Reader) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/tasks/a/cancel", body)
		request.ContentLength = 8 << 20
		request.Header.Set("Content-Type", formType)
		request.Header.Set("X-Person", person)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	begun, end, ended := make(chan bool), make(chan bool), make(chan int, 2)
	for range 2 {
		go func() { ended <- post("admin", stuckForm{begun, end}) }()
	}
	<-begun
	<-begun
	body := &counted{Reader: strings.NewReader("a=b")}
	if status := post("admin", body); status != http.StatusServiceUnavailable || body.read > 0 {
		t.Errorf("a third form: answer %d, after %d bytes", status, body.read)
	}
	if status := post("schedule", strings.NewReader("a=b")); status != http.StatusNotFound {
		t.Errorf("the form of somebody else: answer %d", status)
	}
	close(end)
	for range 2 {
		if status := <-ended; status != http.StatusBadRequest {
			t.Errorf("a form that broke off: answer %d", status)
		}
	}
}

type stuckForm struct{ begun, end chan bool }

func (s stuckForm) Read([]byte) (int, error) {
	s.begun <- true
	<-s.end
	return 0, errors.New("broke off")
}

// Each refusal is in the log, with the name of a key that was revoked, and without a secret. One address has a rate.
func TestRefusedSignIns(t *testing.T) {
	t.Parallel()
	b := newBoard(t, func(c *dashboard.Config) {
		c.SignInRate, c.TrustedProxies = 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	known := keys.New(keys.Config{})
	secret := b.newKey("gone", keys.Read)
	b.must(known.Revoke(t.Context(), b.pool, "gone", "test"))
	from := func(address, key string) reply {
		return b.send(http.MethodPost, "/sign-in", map[string][]string{"key": {key}}, "X-Forwarded-For", address)
	}
	from("192.0.2.1", secret).wants(t, http.StatusUnauthorized, "The key is not valid.")
	made := "tt_" + strings.Repeat("B", 43)
	refused := 0
	for range 20 {
		if got := from("192.0.2.1", made); got.status == http.StatusTooManyRequests {
			got.wants(t, http.StatusTooManyRequests, "Try again in a second.")
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("of 20 attempts %d are refused", refused)
	}
	from("192.0.2.2", made).wants(t, http.StatusUnauthorized, "The key is not valid.")
	text := b.log.String()
	for _, want := range []string{`address=192.0.2.1 key=gone`, `address=192.0.2.2 key=""`, "the key is revoked"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, secret[3:]) || strings.Contains(text, made[3:]) {
		t.Errorf("the log has a secret: %s", text)
	}
}

// Over TLS the session's cookie is bound to the host, and no other cookie is taken.
func TestSessionOverTLS(t *testing.T) {
	t.Parallel()
	for prefix, name := range map[string]string{"": "__Host-tasktable_session", "/admin": "tasktable_session"} {
		b := newBoard(t, func(c *dashboard.Config) { c.Prefix = prefix })
		b.noRedirects()
		secret := b.newKey("ann", keys.Read)
		got := b.send(http.MethodPost, "/sign-in", map[string][]string{"key": {secret}},
			"X-Forwarded-Proto", "https").wants(t, http.StatusSeeOther)
		cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
		if err != nil || cookie.Name != name || !cookie.Secure || cookie.Path != prefix+"/" || cookie.Domain != "" {
			t.Fatalf("the cookie is %v, %v", cookie, err)
		}
		other := newBoardOn(b)
		for sent, want := range map[string]int{name: http.StatusOK, "planted": http.StatusSeeOther} {
			other.send(http.MethodGet, "/tasks", nil, "X-Forwarded-Proto", "https", "Cookie",
				fmt.Sprintf("%s=%s", sent, cookie.Value)).wants(t, want)
		}
		if prefix == "" {
			other.send(http.MethodGet, "/tasks", nil, "X-Forwarded-Proto", "https", "Cookie",
				"tasktable_session="+cookie.Value).wants(t, http.StatusSeeOther)
		}
	}
}
