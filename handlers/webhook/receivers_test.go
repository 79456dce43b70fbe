package webhook_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

// verify returns an error unless the request was signed by the secret within the last five minutes.
func verify(header http.Header, body []byte, secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return errors.New("the secret is no Base64")
	}
	id, timestamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("the timestamp is missing or too old")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for given := range strings.FieldsSeq(header.Get("Webhook-Signature")) { // two while the sender replaces its secret
		if hmac.Equal([]byte(given), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature is by this secret")
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The function verify above is that of README.md, word for word.
func TestTheReceiverInGo(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?ms)^// verify returns .*?^}\n`).FindString(readFile(t, "receivers_test.go"))
	if function == "" || !strings.Contains(readFile(t, "README.md"), function) {
		t.Error("README.md has another function verify")
	}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, test := range map[string]struct {
			change func(header http.Header, body []byte) []byte
			secret string
			want   bool
		}{
			"good":           {nil, secret, true},
			"another secret": {nil, "whsec_" + strings.Repeat("B", 32), false},
			"another body":   {func(_ http.Header, body []byte) []byte { return append(body, ' ') }, secret, false},
			"another id":     {func(h http.Header, body []byte) []byte { h.Set("Webhook-Id", "x"); return body }, secret, false},
			"no signature":   {func(h http.Header, body []byte) []byte { h.Del("Webhook-Signature"); return body }, secret, false},
			"no timestamp":   {func(h http.Header, body []byte) []byte { h.Del("Webhook-Timestamp"); return body }, secret, false},
			"an old one":     {func(h http.Header, body []byte) []byte { h.Set("Webhook-Timestamp", "1614265330"); return body }, secret, false},
			"a signature too": {func(h http.Header, body []byte) []byte {
				h.Set("Webhook-Signature", "v1,AA== "+h.Get("Webhook-Signature"))
				return body
			}, secret, true},
		} {
			header, sent := r.Header.Clone(), append([]byte(nil), body...)
			if test.change != nil {
				sent = test.change(header, sent)
			}
			if err := verify(header, sent, test.secret); (err == nil) != test.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	sender := newSender(t, webhook.Config{Allow: local, Secrets: map[string][]string{"orders": {secret}}})
	payload := contract.HTTPRequest{URL: server.URL, Body: map[string]string{"order": "42"}, SignWith: "orders"}
	if err := run(t.Context(), t, sender, attempt(payload)); err != nil {
		t.Error(err)
	}
}

// The receiver in Python is run as README.md has it, only at another port.
func TestTheReceiverInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 in PATH: ", err)
	}
	blocks := regexp.MustCompile("(?ms)^```python\n(.*?)^```$").FindStringSubmatch(readFile(t, "README.md"))
	if blocks == nil {
		t.Fatal("README.md has no receiver in Python")
	}
	const served = `    HTTPServer(("127.0.0.1", 8080), Receiver).serve_forever()`
	program := strings.Replace(blocks[1], served, `    server = HTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()`, 1)
	if program == blocks[1] {
		t.Fatal("the receiver is served in another way")
	}
	file := filepath.Join(t.TempDir(), "receiver.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	receiver := exec.CommandContext(ctx, python, file)
	receiver.Env = append(os.Environ(), "ORDERS_WEBHOOK_SECRET="+secret)
	output, err := receiver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = receiver.Wait()
	}()
	port, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the receiver does not begin: %v", err)
	}
	for name, test := range map[string]struct {
		secrets []string
		want    string // a part of the error; "": it is accepted
	}{
		"good":                     {[]string{secret}, ""},
		"while it is replaced":     {[]string{"whsec_" + strings.Repeat("B", 32), secret}, ""},
		"another secret":           {[]string{"whsec_" + strings.Repeat("B", 32)}, "answered 401"},
		"a secret that is unknown": {nil, "sign_with names a secret that this node does not have"},
	} {
		config := webhook.Config{Allow: local}
		if test.secrets != nil {
			config.Secrets = map[string][]string{"orders": test.secrets}
		}
		err := run(t.Context(), t, newSender(t, config), attempt(contract.HTTPRequest{
			URL: "http://127.0.0.1:" + strings.TrimSpace(port), Body: map[string]string{"order": "42 ü"}, SignWith: "orders",
		}))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
