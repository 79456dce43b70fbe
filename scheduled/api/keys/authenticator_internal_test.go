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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// fakeDB answers each query with the same key, or with none, or with an error, after a delay.
type fakeDB struct {
	asked atomic.Int64
	delay time.Duration
	none  bool
	err   error
}

func (f *fakeDB) Query(ctx context.Context, _ string, _ ...any) (pgx.Rows, error) {
	f.asked.Add(1)
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	return &oneKey{done: f.none}, nil
}

// oneKey is the row of findSQL, noted already.
type oneKey struct {
	pgx.Rows
	done bool
}

var foundColumns = []string{
	"number", "name", "prefix", "scopes", "service", "tenant_id", "types", "queues", "rate", "created_at", "created_by", "expires_at",
	"revoked_at", "revoked_by", "last_used_at", "expired", "noted",
}

func (o *oneKey) Close()                        {}
func (o *oneKey) Err() error                    { return nil }
func (o *oneKey) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }
func (o *oneKey) Next() bool                    { first := !o.done; o.done = true; return first }

func (o *oneKey) FieldDescriptions() []pgconn.FieldDescription {
	fields := make([]pgconn.FieldDescription, len(foundColumns))
	for i, name := range foundColumns {
		fields[i].Name = name
	}
	return fields
}

func (o *oneKey) Scan(targets ...any) error {
	if scanner, ok := targets[0].(pgx.RowScanner); ok {
		return scanner.ScanRow(o)
	}
	for i, target := range targets {
		switch foundColumns[i] {
		case "number":
			*target.(*int64) = 7
		case "name":
			*target.(*string) = "a"
		case "scopes":
			*target.(*string) = "read"
		case "noted":
			*target.(*bool) = true
		}
	}
	return nil
}

func (f *fakeDB) authenticator() *Authenticator {
	return NewAuthenticator(AuthenticatorConfig{Keys: New(Config{}), DB: f})
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
