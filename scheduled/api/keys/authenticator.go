package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tasktable/tasktable/store"
)

const (
	// MaxStale is how long an Authenticator uses an answer of the database. For this long a key may work after it was
	// revoked or has expired, and a secret may be refused after its key was created.
	MaxStale = 5 * time.Second
	// maxAnswers bounds the memory that callers with made-up secrets can take: about a megabyte.
	maxAnswers   = 4096
	noteUseLimit = time.Second // a call waits no longer for the write of last_used_at
)

// AuthenticatorConfig configures an Authenticator. Keys and DB are required.
type AuthenticatorConfig struct {
	Keys *Keys
	DB   store.DB // a pool
	// Logger gets a warning if last_used_at cannot be written. Default (nil): nothing is logged.
	Logger *slog.Logger
}

// Authenticator finds the keys of calls. It asks the database at most once in MaxStale for one secret, however many
// calls there are. It remembers hashes, and no secret. It writes last_used_at, at most once a minute for one key. It is
// safe for concurrent use.
type Authenticator struct {
	keys   *Keys
	db     store.DB
	logger *slog.Logger
	// find finds the key of a secret in the database, and tells whether its use is noted already.
	find func(ctx context.Context, secret string) (key Key, noted bool, err error)

	mutex   sync.Mutex
	answers map[[sha256.Size]byte]*answer
}

// answer is what the database says about a secret. The fields below done are set when done is closed.
type answer struct {
	asked  time.Time // before the query, so that the answer is not older than it seems
	done   chan struct{}
	key    Key
	err    error // a refusal or nil, or a failure
	failed bool  // the database has given no answer
	ended  bool  // it has failed because the caller that asked has gone
}

// NewAuthenticator returns an Authenticator.
func NewAuthenticator(config AuthenticatorConfig) *Authenticator {
	a := &Authenticator{keys: config.Keys, db: config.DB, answers: map[[sha256.Size]byte]*answer{},
		logger: cmp.Or(config.Logger, slog.New(slog.DiscardHandler))}
	a.find = func(ctx context.Context, secret string) (Key, bool, error) { return a.keys.find(ctx, a.db, secret) }
	return a
}

// Authenticate finds the key of a secret. Its errors are those of Keys.Authenticate. Use IsRefusal to tell a secret
// that must be refused from a database that does not answer.
func (a *Authenticator) Authenticate(ctx context.Context, secret string) (Key, error) {
	if !isSecret(secret) {
		return Key{}, fmt.Errorf("authenticate: %w", ErrUnknownKey)
	}
	hash := sha256.Sum256([]byte(secret))
	for {
		found, asks := a.answer(hash, time.Now())
		if asks {
			a.ask(ctx, hash, found, secret)
			return found.key, found.err
		}
		select {
		case <-found.done:
		case <-ctx.Done():
			return Key{}, fmt.Errorf("authenticate: %w", ctx.Err())
		}
		if !found.ended {
			return found.key, found.err
		}
	}
}

// answer returns the answer about a secret. asks is true if the caller has to get it.
func (a *Authenticator) answer(hash [sha256.Size]byte, now time.Time) (found *answer, asks bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if found := a.answers[hash]; found != nil && !found.stale(now) {
		return found, false
	}
	if len(a.answers) >= maxAnswers {
		for hash, old := range a.answers {
			if old.stale(now) {
				delete(a.answers, hash)
			}
		}
	}
	found = &answer{asked: now, done: make(chan struct{})}
	a.answers[hash] = found
	return found, true
}

func (w *answer) stale(now time.Time) bool { return now.Sub(w.asked) >= MaxStale }

// ask asks the database. It ends within MaxStale, so that no call uses an older answer.
func (a *Authenticator) ask(ctx context.Context, hash [sha256.Size]byte, to *answer, secret string) {
	limited, cancel := context.WithDeadline(ctx, to.asked.Add(MaxStale))
	defer cancel()
	noted := true
	to.failed, to.err = true, errors.New("authenticate: the query has panicked")
	func() {
		defer a.settle(hash, to)
		to.key, noted, to.err = a.find(limited, secret)
		to.failed = to.err != nil && !IsRefusal(to.err)
		to.ended = to.failed && ctx.Err() != nil
	}()
	if to.err != nil || noted {
		return
	}
	limited, cancelNote := context.WithTimeout(ctx, noteUseLimit)
	defer cancelNote()
	if err := a.keys.noteUse(limited, a.db, to.key); err != nil && ctx.Err() == nil {
		a.logger.WarnContext(ctx, "the last use of an API key was not written", "key", to.key.Name, "error", err)
	}
}

// settle makes an answer known to the calls that wait for it. It forgets a failure, and, if there is no room, a
// refusal.
func (a *Authenticator) settle(hash [sha256.Size]byte, got *answer) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.answers[hash] == got && (got.failed || got.err != nil && len(a.answers) > maxAnswers) {
		delete(a.answers, hash)
	}
	close(got.done)
}
