package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = 10 * time.Minute
	maxURL         = 8 << 10
	maxHost        = 253
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10
	maxBody        = 256 << 10
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// Check returns an error that names the first field that breaks a rule, and the rule. It does not contain the field's
// value, because errors go to logs.
func (r HTTPRequest) Check() error {
	if _, err := ParseURL(r.URL); err != nil {
		return fmt.Errorf("payload field url %w", err)
	}
	if r.Method != "" && !slices.Contains(methods, r.Method) {
		return errors.New("payload field method must be one of " + strings.Join(methods, ", "))
	}
	if r.Timeout != "" {
		if d, err := time.ParseDuration(r.Timeout); err != nil || d < minTimeout || d > maxTimeout {
			return fmt.Errorf("payload field timeout must be a duration from %s to %s, such as 30s",
				minTimeout, maxTimeout)
		}
	}
	for i, status := range r.ExpectedStatus {
		if _, _, ok := status.bounds(); !ok {
			return fmt.Errorf("payload field expected_status must have statuses from 200 to 599 and ranges of them, "+
				"such as 200-299; number %d is neither", i+1)
		}
	}
	if strings.ContainsFunc(r.SignWith, notVisible) || len(r.SignWith) > 64 {
		return errors.New("payload field sign_with must be a name of at most 64 visible ASCII characters")
	}
	if strings.ContainsFunc(r.Circuit, notVisible) || len(r.Circuit) > 64 {
		return errors.New("payload field circuit must be a name of at most 64 visible ASCII characters")
	}
	if err := r.checkHeaders(); err != nil {
		return fmt.Errorf("payload field headers %w", err)
	}
	if err := r.checkBody(); err != nil {
		return fmt.Errorf("payload field body %w", err)
	}
	return nil
}

// checkGiven refuses a field that is there and empty. A program sends it that has lost the value, and it does not mean
// the default. Without the secret's name, for example, the request would be sent unsigned.
func checkGiven(text []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return errors.New("payload must be a JSON object")
	}
	for _, name := range []string{"method", "timeout", "expected_status", "sign_with", "circuit"} {
		var value any
		_ = json.Unmarshal(given[name], &value) // a missing field stays nil
		if list, isList := value.([]any); value == "" || name == "expected_status" && isList && len(list) == 0 {
			return fmt.Errorf("payload field %s must not be empty; leave it out for the default", name)
		}
	}
	return nil
}

// ParseURL parses the address of a request or of a redirect. Its errors begin with the rule, and leave out the text.
func ParseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("must have at most %d bytes", maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("must be an address that begins with http:// or https:// and has a host")
	case strings.Contains(u.RawQuery, " "): // it would end the address in the request's first line
		return nil, errors.New("must have %20 instead of a space in its query")
	case len(u.Hostname()) > maxHost:
		return nil, fmt.Errorf("must have a host of at most %d bytes", maxHost)
	case !isPort(u.Port()):
		return nil, errors.New("must have a port from 1 to 65535, or none")
	case u.User != nil:
		return nil, errors.New("must have no user and no password")
	}
	return u, nil
}

// isPort reports whether a text of digits is a port, or empty.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

// MethodOrDefault returns the method, which is POST if none is given.
func (r HTTPRequest) MethodOrDefault() string { return cmp.Or(r.Method, "POST") }

// TimeoutOr returns the timeout, or the given one if the request has none.
func (r HTTPRequest) TimeoutOr(byDefault time.Duration) time.Duration {
	if d, err := time.ParseDuration(r.Timeout); err == nil {
		return d
	}
	return byDefault
}

// Expects reports whether an answer with this status completes the task.
func (r HTTPRequest) Expects(status int) bool {
	if len(r.ExpectedStatus) == 0 {
		return status >= 200 && status <= 299
	}
	return slices.ContainsFunc(r.ExpectedStatus, func(s StatusRange) bool {
		low, high, ok := s.bounds()
		return ok && low <= status && status <= high
	})
}

func (s StatusRange) bounds() (low, high int, ok bool) {
	first, last, isRange := strings.Cut(string(s), "-")
	if !isRange {
		last = first
	}
	low, errLow := strconv.Atoi(first)
	high, errHigh := strconv.Atoi(last)
	return low, high, errLow == nil && errHigh == nil && 200 <= low && low <= high && high <= 599
}

// EncodedBody returns the bytes of the body, or nil if there is none.
func (r HTTPRequest) EncodedBody() ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer) // makes a json.RawMessage compact
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r.Body); err != nil {
		return nil, errors.New("must be a value that can be encoded as JSON")
	}
	encoded := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	contentType := r.Header("Content-Type")
	switch {
	case string(encoded) == "null":
		return nil, nil
	case contentType == "":
		return encoded, nil
	case encoded[0] == '"':
		var text string
		err := json.Unmarshal(encoded, &text)
		return []byte(text), err
	case !isJSON(contentType):
		return nil, errors.New("must be a string if the header Content-Type is not a JSON type")
	}
	return encoded, nil
}

func (r HTTPRequest) checkBody() error {
	body, err := r.EncodedBody()
	switch method := r.MethodOrDefault(); {
	case err != nil:
		return err
	case len(body) > maxBody:
		return fmt.Errorf("must have at most %d bytes", maxBody)
	case body != nil && (method == "GET" || method == "HEAD"):
		return fmt.Errorf("must be absent for %s", method)
	}
	return nil
}

// isJSON reports whether a media type is application/json or ends in +json.
func isJSON(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	return name == "application/json" || strings.HasSuffix(name, "+json")
}

// Header returns the value of a header, whatever the case of its name, or "".
func (r HTTPRequest) Header(name string) string {
	for given, value := range r.Headers {
		if strings.EqualFold(given, name) {
			return value
		}
	}
	return ""
}

// ownHeaders are set by the handler or by the HTTP client. The others of them belong to one connection (RFC 9110,
// 7.6.1), and could make a proxy take one request for two.
var (
	ownHeaders = []string{
		"Host", "Content-Length", "Idempotency-Key", "Traceparent", "Tracestate", "Expect",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	ownPrefixes = []string{"Webhook-", "Tasktable-", "Proxy-"}
)

func (r HTTPRequest) checkHeaders() error {
	if len(r.Headers) > maxHeaders {
		return fmt.Errorf("must be at most %d", maxHeaders)
	}
	size, seen := 0, map[string]bool{}
	for name, value := range r.Headers {
		size += len(name) + len(value)
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		hasPrefix := func(prefix string) bool { return strings.HasPrefix(canonical, prefix) }
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			return errors.New("must have names of letters, digits and !#$%&'*+-.^_`|~")
		case slices.Contains(ownHeaders, canonical) || slices.ContainsFunc(ownPrefixes, hasPrefix):
			return fmt.Errorf("must not have %s, which the handler sets or which belongs to the connection", canonical)
		case seen[canonical]:
			return fmt.Errorf("must not have %s twice", canonical)
		case strings.ContainsFunc(value, notValue):
			return fmt.Errorf("must have values of visible ASCII characters and spaces; %s has others", canonical)
		}
		seen[canonical] = true
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("must have at most %d bytes together", maxHeaderBytes)
	}
	return nil
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }
func notValue(r rune) bool   { return r != ' ' && notVisible(r) }
func notToken(r rune) bool   { return notVisible(r) || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }
