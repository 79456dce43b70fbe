package dashboard

import (
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
)

// maxAddressBytes bounds an address. Pages repeat their address in links, so a long one would fill the memory.
const maxAddressBytes = 16 << 10

// contentPolicy allows the dashboard's own files and nothing else: no inline script, no other host, no frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect adds the headers that keep other sites out, and refuses forms that a page of another site has sent.
func protect(next http.Handler, logger *slog.Logger) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			panicked := recover()
			if panicked == http.ErrAbortHandler { //nolint:errorlint // a value
				panic(panicked) // the server ends the connection
			}
			if panicked != nil {
				logger.Error("a page panicked", "path", r.URL.Path, "panic", panicked, "stack", string(debug.Stack()))
				http.Error(w, "something went wrong; the log has more", http.StatusInternalServerError)
			}
		}()
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Frame-Options", "DENY")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if len(r.URL.RequestURI()) > maxAddressBytes {
			http.Error(w, "the address is too long", http.StatusRequestURITooLong)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// mount serves the paths under a prefix. It refuses a path with // or .. in it, because the mux would lead to a path
// without the prefix, which is another part of the service.
func mount(prefix string, next http.Handler) http.Handler {
	return http.StripPrefix(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.EscapedPath()
		switch clean := path.Clean(given); {
		case given == "":
			http.Redirect(w, r, prefix+"/", http.StatusSeeOther)
		case !strings.HasPrefix(given, "/"), given != clean && given != clean+"/":
			http.NotFound(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	}))
}
