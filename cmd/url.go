package cmd

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

// databaseURL refuses what cannot be parsed, without a word of it: pgx masks the passwords it finds, but in a malformed URL
// it may take a part of one for a port or a database.
func databaseURL(into *string) func(string) error {
	return func(given string) error {
		if strandedPassword(given) {
			return errors.New(urlShape)
		}
		if _, err := pgxpool.ParseConfig(given); err != nil {
			return urlRule(err)
		}
		*into = given
		return nil
	}
}

// strandedPassword finds an @ behind the first /: that URL parses, with the beginning of its password as the port, and the
// rest as the database's name, which error messages show.
func strandedPassword(given string) bool {
	_, rest, isURL := strings.Cut(given, "://")
	beforeQuery, _, _ := strings.Cut(rest, "?")
	slash := strings.IndexByte(beforeQuery, '/')
	return isURL && slash >= 0 && strings.Contains(beforeQuery[slash:], "@") && !strings.Contains(beforeQuery[:slash], "@")
}

// urlRule is what pgx says about its own rule, without what it quotes.
func urlRule(err error) error {
	var wrong *pgconn.ParseConfigError
	if !errors.As(err, &wrong) {
		return errors.New(urlShape)
	}
	bare := *wrong
	bare.ConnString = ""
	said := strings.TrimPrefix(bare.Error(), "cannot parse ``: ")
	if cause := bare.Unwrap(); cause != nil {
		said = strings.TrimSuffix(said, " ("+cause.Error()+")")
		if path := new(fs.PathError); errors.As(cause, &path) { // a certificate or a service file
			said += ": " + path.Error()
		}
	}
	return fmt.Errorf("%s (%s)", urlShape, said)
}
