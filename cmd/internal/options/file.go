package options

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// ReadFile reads a file of settings of at most the given number of bytes. It refuses a file that everybody may write
// to, because such a person would decide what this process does. Its errors are those of package os, or the rule that
// the file breaks, without the path.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// On Windows the mode says nothing about others.
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o002 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("must not be writable by everybody, but has mode %#o", mode.Perm())
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("has more than %d bytes", most)
	}
	return content, nil
}
