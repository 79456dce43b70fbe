package localpg

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
)

const (
	oldestMajor = 14
	dockerRun   = "docker run --rm -d -p 127.0.0.1:5432:5432 -e POSTGRES_PASSWORD=postgres postgres:17"
)

// places are the folders in which Start looks for binaries after PATH. It is a variable, so that a test can act as a
// machine without Postgres.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// binaries is a folder with postgres and initdb of one version.
type binaries struct {
	dir   string
	major int
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d{1,9})`)

// parseMajor parses the output of postgres --version, for example "postgres (PostgreSQL) 15.14 (Debian
// 15.14-0+deb12u1)".
func parseMajor(text string) (int, error) {
	match := versionText.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("%q is no version of Postgres", text)
	}
	major, _ := strconv.Atoi(match[1]) // some digits
	if major < oldestMajor {
		return 0, fmt.Errorf("version %d is older than %d", major, oldestMajor)
	}
	return major, nil
}

// noPostgres returns the message for somebody who has no Postgres installed, with the possible ways out.
func noPostgres(rejected, download error) error {
	install := "apt install postgresql"
	if runtime.GOOS == "darwin" {
		install = "brew install postgresql@17"
	}
	found := "none is installed"
	if rejected != nil {
		found = "none that is installed can be used (" + rejected.Error() + ")"
	}
	return fmt.Errorf(`%w: %s, and downloading one failed: %w
Do one of these:
  install Postgres %d or newer:  %s
  or use a server you have:      set DATABASE_URL=postgres://user:password@host:5432/database
  or start one with Docker:      %s
                                 and set DATABASE_URL=postgres://postgres:postgres@127.0.0.1:5432/postgres`,
		ErrNoPostgres, found, download, oldestMajor, install, dockerRun)
}

var (
	errNoDownload   = errors.New("there is no download of this version")
	errDownloadsOff = errors.New("Config.NoDownload is set")
)
