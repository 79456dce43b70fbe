//go:build linux || darwin

package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged user that runs Postgres if the caller is root. A nil account stands for the caller.
type account struct {
	name     string
	uid, gid uint32
}

func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		entry, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(entry.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(entry.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("reading the ids of user %s: %w", name, err)
		}
		return &account{name, uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("Postgres refuses to run as root, and this machine has neither a user postgres nor a user " +
		"nobody to run it as: run as another user")
}

// ownerOf returns the account for existing data, which is the owner of the data. That may be nobody if the user
// postgres was created later.
func (a *account) ownerOf(data string) (*account, error) {
	if a == nil {
		return nil, nil
	}
	info, err := os.Stat(data)
	if err != nil {
		return nil, fmt.Errorf("reading the owner of the data folder: %w", err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Uid == 0 {
		return nil, fmt.Errorf("%s belongs to root, and Postgres refuses to run as root: chown -R %s it", data, a.name)
	}
	if stat.Uid == a.uid {
		return a, nil
	}
	return &account{strconv.Itoa(int(stat.Uid)), stat.Uid, stat.Gid}, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("giving %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// openTree lets the account read and execute files that were unpacked under the caller's umask.
func (a *account) openTree(root string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o044
		if info.IsDir() || mode&0o100 != 0 {
			mode |= 0o011
		}
		return os.Chmod(path, mode)
	})
}
