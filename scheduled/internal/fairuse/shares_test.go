package fairuse_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

const patient = time.Minute

func TestShares(t *testing.T) {
	t.Parallel()
	shares := fairuse.NewShares(5, 3)
	take := func(caller string, n int64) (func(), error) { return shares.Take(t.Context(), caller, n, 0) }
	giveA, err := take("a", 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take("a", 1); !errors.Is(err, fairuse.ErrOwnShare) {
		t.Errorf("more than a share: %v", err)
	}
	giveB, err := take("b", 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take("b", 1); !errors.Is(err, fairuse.ErrAllShares) {
		t.Errorf("more than there is: %v", err)
	}
	giveA()
	giveA() // a second time gives nothing back
	giveB()
	for _, caller := range []string{"a", "b"} {
		if _, err := take(caller, 2); err != nil {
			t.Errorf("after all was given back: %v", err)
		}
	}
	if _, err := take("c", 2); !errors.Is(err, fairuse.ErrAllShares) {
		t.Errorf("more than there is: %v", err)
	}
}

func TestSharesAreWaitedFor(t *testing.T) {
	t.Parallel()
	shares := fairuse.NewShares(1, 1)
	give, err := shares.Take(t.Context(), "a", 1, patient)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := shares.Take(t.Context(), "b", 1, patient)
		taken <- err
	}()
	if _, err := shares.Take(t.Context(), "c", 1, time.Millisecond); !errors.Is(err, fairuse.ErrAllShares) {
		t.Errorf("after the patience is over: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shares.Take(ctx, "d", 1, patient); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that has gone: %v", err)
	}
	give()
	if err := <-taken; err != nil {
		t.Errorf("the share that was given back: %v", err)
	}
}
