package webhook

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	maxErrorBody = 1 << 10
	minScrubbed  = 4 // bytes of a value; a shorter one is no secret, and would take the body apart
	minPart      = 8 // bytes of a word of a value: Bearer is none that must go
)

// plainHeaders are the headers of a request whose values may be told. All others may be secrets, or signatures.
var plainHeaders = []string{
	"Accept", "Content-Type", "User-Agent", headerTaskID, headerAttempt, headerTraceparent, headerIdempotencyKey,
	headerWebhookID, headerWebhookTimestamp,
}

// The forms of secrets, wherever the server has them from.
var (
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]+`)
	signatures  = regexp.MustCompile(`\b(whsec_|v1a?,)[A-Za-z0-9+/=_-]+`)
	named       = regexp.MustCompile(`(?i)([\w-]*` +
		`(?:authorization|signature|secret|token|passw|api[_-]?key|cookie)[\w-]*` +
		`\\?["']?\s*[:=]\s*)(\\?"[^"]*"|'[^']*'|[^\s,;&}]+)`)
)

// scrubbed is the beginning of an answer's body as one line that may be told in an error: without control characters,
// and without what the request had in its headers and in its query, because servers repeat what they were sent.
func (r *request) scrubbed(body []byte) string {
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	for _, secret := range r.secrets() {
		text = strings.ReplaceAll(text, secret, "…")
	}
	text = credentials.ReplaceAllString(text, "$1 …")
	text = signatures.ReplaceAllString(text, "$1…")
	text = named.ReplaceAllString(text, "$1…")
	words := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
	text = strings.Join(words, " ")
	if len(text) > maxErrorBody {
		text = strings.ToValidUTF8(text[:maxErrorBody], "") + "…"
	}
	return text
}

// secrets are the values of the request that a server must not be able to bring into an error, the longest first.
func (r *request) secrets() (found []string) {
	for name, values := range r.header {
		if !slices.Contains(plainHeaders, name) {
			for _, value := range values {
				found = append(found, value)
				for part := range strings.FieldsSeq(value) {
					if len(part) >= minPart {
						found = append(found, part)
					}
				}
			}
		}
	}
	for _, values := range r.url.Query() {
		found = append(found, values...)
	}
	found = append(found, r.url.RawQuery)
	for part := range strings.SplitSeq(r.url.EscapedPath(), "/") {
		if len(part) >= 20 { // as services have tokens there
			found = append(found, part)
		}
	}
	found = slices.DeleteFunc(found, func(one string) bool { return len(one) < minScrubbed })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return found
}
