package options

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const urlShape = `must be postgres://user:password@host:5432/database, where a password's @ : / ? # % are written ` +
	`%40 %3A %2F %3F %23 %25, or "host=… user=… password=… dbname=…"`

// DatabaseURL takes a database's URL. It refuses one that cannot be parsed, without quoting it. pgx masks the
// passwords that it finds, but in a malformed URL it may take a part of a password for a port or a database.
func DatabaseURL(into *string) func(string) error {
	return func(given string) error {
		if strandedPassword(given) {
			return errors.New(urlShape)
		}
		if _, err := pgxpool.ParseConfig(given); err != nil {
			return DatabaseURLError(err)
		}
		*into = given
		return nil
	}
}

// strandedPassword finds an @ behind the first /. Such a URL parses, but the beginning of its password becomes the
// port and the rest the database's name, and error messages show both.
func strandedPassword(given string) bool {
	_, rest, isURL := strings.Cut(given, "://")
	beforeQuery, _, _ := strings.Cut(rest, "?")
	slash := strings.IndexByte(beforeQuery, '/')
	return isURL && slash >= 0 && strings.Contains(beforeQuery[slash:], "@") &&
		!strings.Contains(beforeQuery[:slash], "@")
}

// DatabaseURLError is pgx's error without the parts of the URL that it quotes.
func DatabaseURLError(err error) error {
	var wrong *pgconn.ParseConfigError
	if !errors.As(err, &wrong) {
		return errors.New(urlShape)
	}
	bare := *wrong
	bare.ConnString = ""
	message := strings.TrimPrefix(bare.Error(), "cannot parse ``: ")
	if cause := bare.Unwrap(); cause != nil {
		message = strings.TrimSuffix(message, " ("+cause.Error()+")")
		if path := new(fs.PathError); errors.As(cause, &path) { // a certificate or a service file
			message += ": " + path.Error()
		}
	}
	return fmt.Errorf("%s (%s)", urlShape, message)
}
