package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// terminal is a terminal that tells of keys as they are pressed. stty sets it, which every system with terminals has:
// that takes no package for each system's own calls.
type terminal struct {
	file  *os.File
	saved string // its settings, as stty wants them back
}

// IsTerminal asks stty: /dev/null is a character device, too.
func IsTerminal(ctx context.Context, file any) bool {
	f, ok := file.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := stty(ctx, f, "-g")
	return err == nil
}

// Width is how many columns a terminal has; 0: not known.
func Width(ctx context.Context, file any) int {
	f, ok := file.(*os.File)
	if !ok {
		return 0
	}
	size, err := stty(ctx, f, "size")
	if err != nil {
		return 0
	}
	_, columns, _ := strings.Cut(size, " ")
	width, _ := strconv.Atoi(columns) // what is no number is not known either
	return width
}

func stty(ctx context.Context, file *os.File, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stty", args...)
	cmd.Stdin = file
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("set the terminal: stty %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Open has each key told at once and not shown. Ctrl-C still is the signal. The caller must restore it.
func Open(ctx context.Context, file *os.File) (*terminal, error) {
	saved, err := stty(ctx, file, "-g")
	if err != nil {
		return nil, err
	}
	t := &terminal{file, saved}
	// A read returns after a fifth of a second without a key: one that waits could not be ended.
	if _, err := stty(ctx, file, "-icanon", "-echo", "min", "0", "time", "2"); err != nil {
		return nil, errors.Join(err, t.Restore())
	}
	return t, nil
}

// Restore needs no context: it also follows an interrupt. It may be called again.
func (t *terminal) Restore() error {
	_, err := stty(context.Background(), t.file, t.saved)
	return err
}

// Keys tells of keys until the context ends or the terminal is gone, and returns.
func (t *terminal) Keys(ctx context.Context, tell func(key byte)) {
	one := make([]byte, 1)
	// A terminal that was hung up answers at once, and for ever.
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		n, err := t.file.Read(one)
		if n == 1 {
			tell(one[0])
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
