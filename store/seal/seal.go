// Package seal is a store.Codec that encrypts payloads by AES-256-GCM. It uses nothing but the standard library.
//
//	codec, err := seal.New(seal.Key{ID: "2027-05", Secret: secret}) // 32 random bytes, from wherever you keep secrets
//	tasks := store.New(store.Config{Service: "events-api", Codec: codec})
//	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Codec: codec})
//
// The encryption binds a payload to its task's type and id, so that a payload which somebody copies to another task
// cannot be decrypted. The nonce is a keyed hash of type, id and payload. Therefore the same payload of the same task
// is always encrypted to the same bytes, and Schedule recognizes an unchanged task.
//
// Somebody who reads the table sees which payloads of one task are equal, and how long payloads are. Everything
// outside of payloads is readable: ids, types, entities, times, and the errors, notes and results that handlers
// return.
//
// One key is good for 2³² different payloads. Change keys from time to time:
//
//  1. Use New(old, new) everywhere, so that every program can decrypt payloads that the new key encrypts.
//
//  2. Use New(new, old) everywhere. From then on the new key encrypts. Each waiting task that is scheduled again is
//     rescheduled once, and keeps its idempotency key.
//
//  3. Use New(new) when no task is left that the old key encrypted:
//
//     SELECT count(*) FROM tasktable.scheduled_tasks WHERE payload ->> '$codec' = 'seal/old'
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// SecretBytes is the length of a key's secret, in bytes.
const SecretBytes = 32

// Key is a secret with a name.
type Key struct {
	// ID names the key in the table, as "seal/{ID}". It has 1 to 64 letters, digits or ._- and is no secret. Never
	// use one ID for two secrets.
	ID string
	// Secret is SecretBytes random bytes.
	Secret []byte
}

// String returns the ID, so that a printed key does not reveal its secret.
func (k Key) String() string { return k.ID }

// GoString returns the ID, too.
func (k Key) GoString() string { return k.ID }

// Codec is a store.Codec. It encrypts with one key, and decrypts with each of its keys. It is safe for concurrent
// use.
type Codec struct {
	current string
	keys    map[string]sealer
}

var idSyntax = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

const prefix = "seal/"

// New returns a Codec that encrypts with the first key and decrypts with all of them. The error wraps
// store.ErrInvalid. It never contains a secret.
func New(keys ...Key) (*Codec, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: seal needs at least one key", store.ErrInvalid)
	}
	codec := &Codec{current: prefix + keys[0].ID, keys: map[string]sealer{}}
	for i, key := range keys {
		if !idSyntax.MatchString(key.ID) {
			return nil, fmt.Errorf("%w: ID of key %d must be 1 to 64 letters, digits or ._-", store.ErrInvalid, i+1)
		}
		if len(key.Secret) != SecretBytes {
			return nil, fmt.Errorf("%w: Secret of key %q must be %d bytes, got %d", store.ErrInvalid, key.ID,
				SecretBytes, len(key.Secret))
		}
		if _, twice := codec.keys[prefix+key.ID]; twice {
			return nil, fmt.Errorf("%w: ID %q is of two keys", store.ErrInvalid, key.ID)
		}
		made, err := newSealer(prefix+key.ID, key.Secret)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key.ID, err)
		}
		codec.keys[made.name] = made
	}
	return codec, nil
}

// Encode encrypts a payload with the first key.
func (c *Codec) Encode(_ context.Context, kind, id string, plain []byte) (name string, data []byte, err error) {
	return c.current, c.keys[c.current].seal(kind, id, plain), nil
}

// Former returns a Codec for each of the other keys, that encrypts with it.
func (c *Codec) Former() []store.Codec {
	var all []store.Codec
	for name := range c.keys {
		if name != c.current {
			all = append(all, &Codec{current: name, keys: c.keys})
		}
	}
	return all
}

// Decode decrypts a payload with the key that name names.
func (c *Codec) Decode(_ context.Context, name, kind, id string, data []byte) ([]byte, error) {
	key, known := c.keys[name]
	if !known {
		if strings.HasPrefix(name, prefix) {
			return nil, fmt.Errorf("%w: this key is not among those given", store.ErrUnknownCodec)
		}
		return nil, store.ErrUnknownCodec
	}
	return key.open(kind, id, data)
}

// sealer is a key that is ready for use.
type sealer struct {
	name  string
	aead  cipher.AEAD
	nonce []byte // the key of the hash that makes the nonces
}

func newSealer(name string, secret []byte) (sealer, error) {
	var parts [2][]byte
	for i, use := range []string{"encrypt", "nonce"} {
		part, err := hkdf.Key(sha256.New, secret, nil, "tasktable seal "+use, SecretBytes)
		if err != nil {
			return sealer{}, err
		}
		parts[i] = part
	}
	block, err := aes.NewCipher(parts[0])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealer{name: name, aead: aead, nonce: parts[1]}, err
}

// about returns the data to which the encryption binds a payload.
func (s sealer) about(kind, id string) []byte {
	var about []byte
	// Each text has its length before it, because "a", "bc" must differ from "ab", "c".
	for _, text := range []string{s.name, kind, id} {
		about = binary.BigEndian.AppendUint32(about, uint32(len(text)))
		about = append(about, text...)
	}
	return about
}

func (s sealer) seal(kind, id string, plain []byte) []byte {
	about := s.about(kind, id)
	hash := hmac.New(sha256.New, s.nonce)
	hash.Write(about)
	hash.Write(plain)
	nonce := hash.Sum(nil)[:s.aead.NonceSize()]
	return s.aead.Seal(nonce, nonce, plain, about)
}

func (s sealer) open(kind, id string, data []byte) ([]byte, error) {
	if len(data) < s.aead.NonceSize() {
		return nil, fmt.Errorf("%w: it is cut short", store.ErrInvalid)
	}
	nonce, sealed := data[:s.aead.NonceSize()], data[s.aead.NonceSize():]
	plain, err := s.aead.Open(nil, nonce, sealed, s.about(kind, id))
	if err != nil {
		return nil, fmt.Errorf("%w: it was changed, or is another task's, or of another secret with the same ID",
			store.ErrInvalid)
	}
	return plain, nil
}
