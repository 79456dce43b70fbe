package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	secretPrefix = "tt_" // so that people and scanners recognize a key in a file
	secretBytes  = 32
	shownLength  = 8 // the characters of a secret that lists show; 30 of its 256 bits are in them
)

// newSecret returns a new secret. Reading random bytes does not fail: the program ends if the system has none.
func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random)
	return secretPrefix + base64.RawURLEncoding.EncodeToString(random)
}

// isSecret reports whether a text has the form of a secret. A text without it needs no query.
func isSecret(text string) bool {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil
}

// hashOf returns the hash of a secret as hexadecimal text, because every driver can bind text.
func hashOf(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(hash[:])
}
