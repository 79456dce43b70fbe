package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Standard Webhooks asks for secrets of this many bytes.
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// parseSecret returns the key of a secret. Its error does not contain the secret.
func parseSecret(secret string) ([]byte, error) {
	text, found := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("must be %s and the Base64 of %d to %d bytes", secretPrefix, minSecret, maxSecret)
	}
	return key, nil
}

// sign sets the headers of Standard Webhooks. Each key makes a signature, so that receivers with the old secret and
// those with the new one accept the request while a secret is replaced.
func sign(header http.Header, keys [][]byte, id string, at time.Time, body []byte) {
	// The full stop separates the parts of the signed text, so the id must have none.
	id = strings.ReplaceAll(id, ".", "%2E")
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body) // a hash takes everything
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set(headerWebhookID, id)
	header.Set(headerWebhookTimestamp, timestamp)
	header.Set(headerWebhookSignature, strings.Join(signatures, " "))
}

// parseSecrets returns the keys by name. Its errors contain names, but no secrets.
func parseSecrets(secrets map[string][]string) (map[string][][]byte, error) {
	keys := make(map[string][][]byte, len(secrets))
	var errs []error
	for name, all := range secrets {
		if !secretName.MatchString(name) {
			// The name is not quoted, because it may be a part of a secret that was given without its name.
			errs = append(errs, errors.New("Secrets must have names of 1 to 64 letters, digits, - and _"))
			continue
		}
		if len(all) == 0 {
			errs = append(errs, fmt.Errorf("Secrets: %s has none", name))
		}
		for i, secret := range all {
			key, err := parseSecret(secret)
			if err != nil {
				errs = append(errs, fmt.Errorf("Secrets: number %d of %s %w", i+1, name, err))
			}
			keys[name] = append(keys[name], key)
		}
	}
	return keys, errors.Join(errs...)
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
