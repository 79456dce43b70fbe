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

// Terminal is a terminal that reports single keys. The program stty changes its settings. Every system with terminals
// has it, so no package for each system's own calls is needed.
type Terminal struct {
	file  *os.File
	saved string // its settings, as stty wants them back
}

// IsTerminal reports whether the file is a terminal. It asks stty, because /dev/null is a character device, too.
func IsTerminal(ctx context.Context, file any) bool {
	f, ok := file.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := stty(ctx, f, "-g")
	return err == nil
}

// Width is the number of columns of a terminal, or 0 if it is not known.
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

// Open makes the terminal report each key at once, without showing it. Ctrl-C still sends its signal. The caller must
// call Restore.
func Open(ctx context.Context, file *os.File) (*Terminal, error) {
	saved, err := stty(ctx, file, "-g")
	if err != nil {
		return nil, err
	}
	t := &Terminal{file, saved}
	// A read returns after a fifth of a second without a key, because a read that waits cannot be interrupted.
	if _, err := stty(ctx, file, "-icanon", "-echo", "min", "0", "time", "2"); err != nil {
		return nil, errors.Join(err, t.Restore())
	}
	return t, nil
}

// Restore resets the settings that Open has changed. It takes no context, because it also follows an interrupt. It may
// be called again.
func (t *Terminal) Restore() error {
	_, err := stty(context.Background(), t.file, t.saved)
	return err
}

// Keys reports keys until the context ends or the terminal is gone.
func (t *Terminal) Keys(ctx context.Context, tell func(key byte)) {
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
