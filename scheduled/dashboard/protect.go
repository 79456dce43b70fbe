package dashboard

import (
	"log/slog"
	"net/http"
	"runtime/debug"
)

// maxFormBytes bounds a form. A bulk act names up to maxBulk tasks.
const maxFormBytes = 8 << 20

// contentPolicy allows the dashboard's own files and nothing else: no inline script, no other host, no frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect adds the headers that keep other sites out, and refuses forms that a page of another site has sent.
func protect(next http.Handler, logger *slog.Logger) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if panicked := recover(); panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // a value
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
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		guarded.ServeHTTP(w, r)
	})
}
