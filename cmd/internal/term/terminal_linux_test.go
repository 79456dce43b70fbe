package term

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term/termtest"
)

func TestTerminalTellsOfKeysAndIsRestored(t *testing.T) {
	t.Parallel()
	hand, screen := termtest.OpenPTY(t)
	before, err := stty(t.Context(), screen, "-g")
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := Open(t.Context(), screen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := make(chan byte, 2)
	var keys sync.WaitGroup
	keys.Go(func() { terminal.Keys(ctx, func(key byte) { told <- key }) })
	for _, key := range []byte("kq") { // without a line's end
		if _, err := hand.Write([]byte{key}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-told:
			if got != key {
				t.Errorf("key %q, want %q", got, key)
			}
		case <-ctx.Done():
			t.Fatalf("key %q is not told", key)
		}
	}
	cancel()
	keys.Wait()
	if err := terminal.Restore(); err != nil {
		t.Fatal(err)
	}
	if after, err := stty(t.Context(), screen, "-g"); err != nil || after != before {
		t.Errorf("%v: settings %s, were %s", err, after, before)
	}
}

// What has no keys: /dev/null is a character device like a terminal.
func TestWhatIsNoTerminal(t *testing.T) {
	t.Parallel()
	_, screen := termtest.OpenPTY(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	var none *os.File
	for _, c := range []struct {
		file any
		want bool
	}{{screen, true}, {null, false}, {none, false}, {&bytes.Buffer{}, false}} {
		if got := IsTerminal(t.Context(), c.file); got != c.want {
			t.Errorf("%v is a terminal: %t", c.file, got)
		}
	}
}
