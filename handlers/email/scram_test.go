package email_test

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strings"
)

// scram is the server's side of RFC 5802, without channel binding.
func (d *dialogue) scram(mechanism string) bool {
	digest := map[string]func() hash.Hash{"SCRAM-SHA-1": sha1.New, "SCRAM-SHA-256": sha256.New}[mechanism]
	const salt, rounds = "salt of the test", 4096
	clientFirst, bound := strings.CutPrefix(d.ask(""), "n,,")
	user, nonce, _ := strings.Cut(clientFirst, ",r=")
	serverFirst := "r=" + nonce + "more,s=" + base64.StdEncoding.EncodeToString([]byte(salt)) + ",i=4096"
	clientFinal, proof, _ := strings.Cut(d.ask(serverFirst), ",p=")

	salted, err := pbkdf2.Key(digest, d.password, []byte(salt), rounds, digest().Size())
	if err != nil {
		return false
	}
	clientKey := sum(digest, salted, "Client Key")
	stored := digest()
	_, _ = stored.Write(clientKey)
	dialogue := clientFirst + "," + serverFirst + "," + clientFinal
	want := make([]byte, len(clientKey))
	subtle.XORBytes(want, clientKey, sum(digest, stored.Sum(nil), dialogue))
	if !bound || user != "n="+d.user || proof != base64.StdEncoding.EncodeToString(want) {
		return false
	}
	d.ask("v=" + base64.StdEncoding.EncodeToString(sum(digest, sum(digest, salted, "Server Key"), dialogue)))
	return true
}

func sum(digest func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(digest, key)
	_, _ = mac.Write([]byte(text))
	return mac.Sum(nil)
}
