package dashboard

import (
	"context"
	"time"
)

// kept is a value that is read for all pages together. While one page reads it, the others wait for it.
type kept[T any] struct {
	turn  chan struct{} // full while somebody reads
	value T
	at    time.Time
}

func newKept[T any]() *kept[T] { return &kept[T]{turn: make(chan struct{}, 1)} }

// get returns the value. If it is older than fresh, read replaces it. read gets the former value, which it must not
// change, because pages show it. After an error the former value stays, and the next page reads.
func (k *kept[T]) get(ctx context.Context, fresh time.Duration, read func(former T) (T, error)) (value T, err error) {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-k.turn }()
	if !k.at.IsZero() && time.Since(k.at) < fresh {
		return k.value, nil
	}
	began := time.Now()
	if value, err = read(k.value); err != nil {
		return value, err
	}
	k.value, k.at = value, began
	return value, nil
}
