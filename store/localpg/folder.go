//go:build linux || darwin

package localpg

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// folder is Config.Dir. It has three lock files. A process holds start.lock while it starts or stops the server. The
// users of the server share users.lock. The server inherits server.lock, which is therefore free exactly if no
// process of the server is left, not even a process that a crash has orphaned.
type folder struct {
	dir     string
	account *account // the user that runs Postgres; nil: the caller

	noDownload bool
}

func openFolder(dir string) (*folder, error) {
	if dir == "" {
		var err error
		if dir, err = defaultDir(); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("Config.Dir: %w", err)
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if err := makeFolder(dir, who); err != nil {
		return nil, fmt.Errorf("Config.Dir: creating it: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // because data_directory is compared as text
		return nil, fmt.Errorf("Config.Dir: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	return &folder{dir: dir, account: who}, nil
}

// makeFolder creates the missing folders of the path. It sets the modes of these folders only, whatever the umask.
// The mode of a folder that existed before, for example /tmp, is not this package's to change.
func makeFolder(dir string, who *account) error {
	mode, parents := fs.FileMode(0o700), fs.FileMode(0o700)
	if who != nil {
		mode, parents = 0o711, 0o755 // the account must reach its data folder
	}
	var missing []string
	for path := dir; ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, path)
	}
	slices.Reverse(missing)
	for _, path := range missing {
		err := os.Mkdir(path, parents)
		if errors.Is(err, fs.ErrExist) {
			continue // another process was faster
		}
		if err != nil {
			return err
		}
		want := parents
		if path == dir {
			want = mode
		}
		if err := os.Chmod(path, want); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner refuses a folder to which others can write. In a shared place such as /tmp, another user could have put
// binaries into it, which localpg would then run.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("Config.Dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("Config.Dir: %s: must be a folder", dir)
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		return fmt.Errorf("Config.Dir: %s: must belong to the caller (user id %d), but belongs to user id %d", dir,
			os.Geteuid(), uid)
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return fmt.Errorf("Config.Dir: %s: must not be writable by everybody, but has mode %#o", dir, mode)
	}
	return nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) logPath() string { return f.path("postgres.log") }

// majors returns the major versions that have a data folder, newest first.
func (f *folder) majors() []int {
	entries, _ := os.ReadDir(f.dir)
	var majors []int
	for _, entry := range entries {
		major, err := strconv.Atoi(strings.TrimPrefix(entry.Name(), "data-"))
		if err == nil && entry.Name() == dataName(major) {
			majors = append(majors, major)
		}
	}
	slices.SortFunc(majors, func(a, b int) int { return b - a })
	return majors
}

func dataName(major int) string { return "data-" + strconv.Itoa(major) }

// sweep removes the unfinished work of starts that were killed. Nobody uses it, because the caller holds start.lock
// and server.lock.
func (f *folder) sweep() {
	left, _ := filepath.Glob(f.path("*.unfinished-*"))
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}

// password returns the password. It makes one if there is none. The caller holds start.lock.
func (f *folder) password() (string, error) {
	text, err := os.ReadFile(f.path("password"))
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the server's password: %w", err)
	}
	password := rand.Text()
	if err := f.write("password", password+"\n"); err != nil {
		return "", fmt.Errorf("keeping the server's password: %w", err)
	}
	return password, nil
}

// write replaces a small file in one step, so that a kill leaves either the old file or the new one.
func (f *folder) write(name, text string) error {
	file, err := os.CreateTemp(f.dir, name+".unfinished-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.path(name))
}

func (f *folder) lastPort() int {
	text, _ := os.ReadFile(f.path("port"))
	port, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return port
}
