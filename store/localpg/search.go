//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// choose returns the binaries to use. Existing data decide first, because binaries of another major version cannot
// read them, and a start with an empty database beside them would look like data loss.
func (f *folder) choose(ctx context.Context, log *slog.Logger) (binaries, error) {
	found, rejected := f.installed(ctx)
	if ctx.Err() != nil { // perhaps no binaries are usable only because ctx has ended
		return binaries{}, fmt.Errorf("looking for Postgres: %w", context.Cause(ctx))
	}
	majors := f.majors()
	for _, major := range majors {
		if i := slices.IndexFunc(found, func(b binaries) bool { return b.major == major }); i >= 0 {
			return found[i], nil
		}
	}
	var failed error
	for _, major := range majors {
		got, err := f.download(ctx, major, log)
		if err == nil {
			return got, nil
		}
		failed = errors.Join(failed, err)
	}
	if len(found) > 0 {
		if len(majors) > 0 {
			log.Warn("no Postgres can read the data of the other version: starting with an empty database beside it",
				"dir", f.dir, "data_of", majors, "version", found[0].major, "error", failed)
		}
		return found[0], nil
	}
	got, err := f.download(ctx, downloadMajor, log)
	if err != nil {
		return binaries{}, noPostgres(rejected, err)
	}
	return got, nil
}

// installed returns the usable binaries of this machine in order of preference, and an error that tells why others
// are not usable.
func (f *folder) installed(ctx context.Context) ([]binaries, error) {
	var (
		found    []binaries
		rejected error
		seen     = map[string]bool{}
	)
	add := func(dirs ...string) {
		var group []binaries
		for _, dir := range dirs {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			got, err := f.inspect(ctx, dir)
			if err != nil {
				rejected = errors.Join(rejected, err)
				continue
			}
			group = append(group, got)
		}
		slices.SortStableFunc(group, func(a, b binaries) int { return b.major - a.major })
		found = append(found, group...)
	}
	add(pathDirs()...)
	for _, place := range places {
		dirs, _ := filepath.Glob(place)
		add(resolved(dirs)...)
	}
	dirs, _ := filepath.Glob(f.path("binaries-*/bin"))
	unfinished := func(dir string) bool { return filepath.Ext(filepath.Dir(dir)) != "" }
	dirs = slices.DeleteFunc(dirs, unfinished)
	add(dirs...)
	return found, rejected
}

// pathDirs follows links, because on many machines PATH has only a link to postgres, and initdb is beside the link's
// target.
func pathDirs() []string {
	var dirs []string
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return resolved(dirs)
}

// resolved are the folders, without links, that have the programs.
func resolved(dirs []string) []string {
	var real []string
	for _, dir := range dirs {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && has(dir, "postgres", "initdb") {
			real = append(real, dir)
		}
	}
	return real
}

func has(dir string, names ...string) bool {
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// inspect runs postgres --version as the user that will run the server. This detects wrong architectures, missing
// libraries, and folders that this user may not enter.
func (f *folder) inspect(ctx context.Context, dir string) (binaries, error) {
	cmd := f.account.command(ctx, filepath.Join(dir, "postgres"), "--version")
	text, err := cmd.Output()
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	major, err := parseMajor(string(text))
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return binaries{dir, major}, nil
}
