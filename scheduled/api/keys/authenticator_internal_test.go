package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeDB finds the same key for each secret, or none, or an error, after a delay.
type fakeDB struct {
	asked atomic.Int64
	delay time.Duration
	none  bool
	err   error
}

func (f *fakeDB) find(ctx context.Context, _ string) (key Key, noted bool, err error) {
	f.asked.Add(1)
	select {
	case <-time.After(f.delay):
	case <-ctx.Done():
		return Key{}, false, ctx.Err()
	}
	if f.none {
		return Key{}, false, ErrUnknownKey
	}
	return Key{Number: 7, Name: "a", Scopes: []Scope{Read}}, true, f.err
}

func (f *fakeDB) authenticator() *Authenticator {
	a := NewAuthenticator(AuthenticatorConfig{Keys: New(Config{})})
	a.find = f.find
	return a
}

func (f *fakeDB) wasAsked(t *testing.T, want int64) {
	t.Helper()
	if got := f.asked.Load(); got != want {
		t.Errorf("the database was asked %d times, want %d", got, want)
	}
}

func TestOneQueryInFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, none := range map[string]bool{"a key": false, "a secret of no key": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := &fakeDB{none: none, delay: time.Second}
				a, secret := db.authenticator(), newSecret()
				for round := range int64(3) {
					var group sync.WaitGroup
					for range 20 {
						group.Go(func() {
							key, err := a.Authenticate(t.Context(), secret)
							if none != errors.Is(err, ErrUnknownKey) || none == key.Allows(Read) {
								t.Errorf("got %+v, %v", key, err)
							}
						})
					}
					group.Wait()
					db.wasAsked(t, round+1)
					time.Sleep(MaxStale - time.Second - time.Nanosecond) // the query has taken a second
					_, _ = a.Authenticate(t.Context(), secret)
					db.wasAsked(t, round+1)
					time.Sleep(time.Nanosecond)
				}
			})
		})
	}
}

// A failure is told to those who wait for the same answer, and is not remembered.
func TestAFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{err: errors.New("connection refused"), delay: time.Second}
		a, secret := db.authenticator(), newSecret()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if _, err := a.Authenticate(t.Context(), secret); !errors.Is(err, db.err) || IsRefusal(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		db.wasAsked(t, 1)
		db.err = nil
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Error(err)
		}
		db.wasAsked(t, 2)
	})
}

// A caller that goes takes nobody else with it.
func TestTheCallerThatAsksGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{delay: time.Second}
		a, secret := db.authenticator(), newSecret()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := a.Authenticate(ctx, secret); !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			group.Go(func() {
				if _, err := a.Authenticate(t.Context(), secret); err != nil {
					t.Errorf("another: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		group.Wait()
		db.wasAsked(t, 2)

		// One who only waits may go, too.
		time.Sleep(MaxStale)
		group.Go(func() { _, _ = a.Authenticate(t.Context(), secret) })
		synctest.Wait()
		gone, goes := context.WithCancel(t.Context())
		goes()
		if _, err := a.Authenticate(gone, secret); !errors.Is(err, context.Canceled) {
			t.Errorf("one who waits: %v", err)
		}
		group.Wait()
	})
}

// A database that does not answer holds nobody for longer than an answer may be old.
func TestASilentDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{delay: time.Hour}
		began := time.Now()
		_, err := db.authenticator().Authenticate(t.Context(), newSecret())
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != MaxStale {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

func TestMadeUpSecretsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{none: true}
		a := db.authenticator()
		for range maxAnswers + 100 {
			if _, err := a.Authenticate(t.Context(), newSecret()); !errors.Is(err, ErrUnknownKey) {
				t.Fatal(err)
			}
		}
		if len(a.answers) != maxAnswers {
			t.Errorf("%d are remembered, want %d", len(a.answers), maxAnswers)
		}
		db.none = false
		secret := newSecret() // a key has room all the same
		for range 2 {
			if _, err := a.Authenticate(t.Context(), secret); err != nil {
				t.Error(err)
			}
		}
		db.wasAsked(t, maxAnswers+101)
		if _, ok := a.answers[sha256.Sum256([]byte(secret))]; !ok {
			t.Error("the key is not remembered")
		}
		time.Sleep(MaxStale)
		_, _ = a.Authenticate(t.Context(), newSecret())
		if len(a.answers) != 1 {
			t.Errorf("%d are remembered, want 1", len(a.answers))
		}
	})
}

func TestSecretsAreNoTwoAlike(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		secret := newSecret()
		if !isSecret(secret) || seen[secret] || len(secret) != 46 {
			t.Fatalf("got %s", secret)
		}
		seen[secret] = true
	}
	for _, text := range []string{"", "tt_", "tt_" + fmt.Sprintf("%043d", 1), "xx_" + fmt.Sprintf("%043d", 0)} {
		if isSecret(text) {
			t.Errorf("%q has the form of a secret", text)
		}
	}
}
