package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// bodyWithin is how long a caller may take to send a body.
const bodyWithin = 5 * time.Second

// readBody reads the whole body, because the Idempotency-Key needs its hash, and an endpoint must not wait for a slow
// client with a transaction open.
func readBody(
	w http.ResponseWriter, r *http.Request, noted *exchange, schemas huma.Registry, schema *huma.Schema,
) *Problem {
	if r.Body != http.NoBody { // a server may give strangers less time; without a body it may be reading on already
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return refusal(CodeBodyTooLarge, fmt.Sprintf("the body must be at most %d bytes", MaxBodyBytes))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refusal(CodeBodyTooSlow, "the body did not arrive in time")
	}
	if err != nil {
		return refusal(CodeMalformed, "the body could not be read")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); len(body) > 0 &&
		(err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json")) {
		return refusal(CodeNotJSON, "the body must be JSON; set Content-Type: application/json")
	}
	if refused := checkFields(body, schemas, schema); refused != nil {
		return refused
	}
	if given := r.Header.Values("Idempotency-Key"); len(given) > 1 || len(given) == 1 && given[0] == "" {
		return invalid("header.Idempotency-Key must be one key of 1 to 255 characters, and not an empty one")
	}
	if refused := conditionsOf(r); refused != nil {
		return refused
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("If-Match"))
	sum.Write(body)
	noted.hash = sum.Sum(nil)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// bodyBytes is how much room a body takes while it is read and worked on. A small one counts as minBodyBytes, so that a
// caller cannot send many of them slowly.
func bodyBytes(r *http.Request) int64 {
	if r.ContentLength < 0 || r.ContentLength > MaxBodyBytes {
		return MaxBodyBytes
	}
	return max(r.ContentLength, minBodyBytes)
}
