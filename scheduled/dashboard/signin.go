package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

// sessionCookie is the name of the cookie that signIn sets. Over TLS, browsers take a name with __Host- only from this
// host and for all of its paths, so that no other host of the domain can set the session of somebody else.
func (d *Dashboard) sessionCookie(r *http.Request) string {
	if isSecure(r) && d.config.Prefix == "" {
		return "__Host-tasktable_session"
	}
	return "tasktable_session"
}

// isSecure reports whether the browser has sent a request over TLS.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// bySession authenticates by the cookie that signIn sets.
func (d *Dashboard) bySession(r *http.Request) (Person, error) {
	cookie, err := r.Cookie(d.sessionCookie(r))
	if err != nil {
		return Person{}, ErrUnauthenticated
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.config.Timeout)
	defer cancel()
	key, noted, err := d.config.Keys.BySession(ctx, d.config.Pool, cookie.Value)
	switch {
	case errors.Is(err, keys.ErrNoSession):
		return Person{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	case err != nil:
		return Person{}, err
	}
	person, known := ownerOf(key)
	if !known {
		return Person{}, ErrUnauthenticated
	}
	if !noted {
		if err := d.config.Keys.NoteSession(ctx, d.config.Pool, cookie.Value); err != nil {
			// The page can be shown all the same, for example if the database is read-only. The next request tries it
			// again.
			d.config.Logger.Warn("the use of a session could not be noted", "key", key.Name, "error", err)
		}
	}
	return person, nil
}

// signInView is shown to somebody who is not signed in. It has no data.
type signInView struct {
	Next  string // the page to go to
	Error string
	ByKey bool // false: the service or a proxy signs people in
}

func (d *Dashboard) showSignIn(w http.ResponseWriter, r *http.Request, status int, view signInView) {
	view.ByKey = d.config.Authenticate == nil
	d.write(w, &visit{board: d, request: r, look: lookOf(r)}, answer{status, "sign-in", "Sign in", view})
}

// refuseStranger leads somebody who is not signed in to the page at which one signs in.
func (d *Dashboard) refuseStranger(w http.ResponseWriter, r *http.Request) {
	switch {
	case d.config.Authenticate != nil || r.Method != http.MethodGet && r.Method != http.MethodHead:
		d.showSignIn(w, r, http.StatusUnauthorized, signInView{Next: "/"})
	case r.URL.Path == "/":
		d.showSignIn(w, r, http.StatusOK, signInView{Next: d.localPath(r.URL.Query().Get("next"))})
	default:
		http.Redirect(w, r, d.link("/", "next", r.URL.RequestURI()), http.StatusSeeOther)
	}
}

// signIn opens a session. The token is new each time, so that nobody can prepare one for somebody else.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	if d.config.Authenticate != nil {
		http.NotFound(w, r)
		return
	}
	address := fairuse.AddressOf(r, d.config.TrustedProxies)
	if wait := d.signIns.Take(address, d.config.SignInRate); wait > 0 { // before the form is read
		w.Header().Set("Retry-After", "1")
		d.showSignIn(w, r, http.StatusTooManyRequests, signInView{Next: "/", Error: "Too many people sign in from " +
			"your address at once. Try again in a second."})
		return
	}
	if err := readForm(w, r, maxStrangerBytes); err != nil {
		d.fail(w, r, err)
		return
	}
	view := signInView{Next: d.localPath(r.PostFormValue("next"))}
	ctx, cancel := context.WithTimeout(r.Context(), d.config.Timeout)
	defer cancel()
	secret := strings.TrimSpace(r.PostFormValue("key"))
	key, err := d.config.Keys.Authenticate(ctx, d.config.Pool, secret)
	switch {
	case keys.IsRefusal(err):
		d.config.Logger.Warn("a sign-in to the dashboard was refused", "address", address, "key", key.Name,
			"error", err)
		view.Error = "The key is not valid."
		d.showSignIn(w, r, http.StatusUnauthorized, view)
		return
	case err != nil:
		d.fail(w, r, fmt.Errorf("sign in: %w", err))
		return
	}
	if _, known := ownerOf(key); !known {
		d.config.Logger.Warn("a sign-in to the dashboard was refused", "address", address, "key", key.Name,
			"error", "the key lacks the scope read")
		view.Error = "The key lacks the scope read."
		d.showSignIn(w, r, http.StatusForbidden, view)
		return
	}
	token, _, err := d.config.Keys.OpenSession(ctx, d.config.Pool, secret, d.config.Lifetime, d.config.IdleLimit)
	if err != nil {
		d.fail(w, r, fmt.Errorf("sign in: %w", err))
		return
	}
	d.config.Logger.Info("somebody signed in to the dashboard", "key", key.Name, "address", address)
	d.setCookie(w, r, d.sessionCookie(r), token, d.config.Lifetime)
	http.Redirect(w, r, d.link(view.Next), http.StatusSeeOther)
}

func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(d.sessionCookie(r)); err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), d.config.Timeout)
		defer cancel()
		if err := d.config.Keys.CloseSession(ctx, d.config.Pool, cookie.Value); err != nil {
			d.fail(w, r, fmt.Errorf("sign out: %w", err))
			return
		}
	}
	d.setCookie(w, r, d.sessionCookie(r), "", -time.Second)
	http.Redirect(w, r, d.link("/"), http.StatusSeeOther)
}

// setCookie sets a cookie of the dashboard's paths, which no script can read. A negative age removes it.
func (d *Dashboard) setCookie(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: d.config.Prefix + "/", MaxAge: int(age / time.Second), HttpOnly: true,
		// Lax, because a link in a mail must lead a person who is signed in to the page.
		Secure: isSecure(r), SameSite: http.SameSiteLaxMode,
	})
}

// localPath returns a path of the dashboard that a form or an address has named. Anything else becomes /, so that no
// link can lead from here to another site.
func (d *Dashboard) localPath(given string) string {
	of, _, _ := strings.Cut(given, "?")
	clean := path.Clean(of) // .. would lead out of the prefix
	if !strings.HasPrefix(given, "/") || strings.HasPrefix(given, "//") || strings.Contains(given, `\`) ||
		!utf8.ValidString(given) || strings.ContainsFunc(given, unicode.IsControl) ||
		of != clean && of != clean+"/" {
		return "/"
	}
	return given
}
