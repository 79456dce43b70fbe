package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The classes of advisory locks, which are in the database of the server's URL. Sessions hold the locks, so that they
// end with the process. If nobody holds the lock of a database, nobody uses the database.
const (
	lockProcess  = 0x7474_0001 // key: process number; exclusive while the process lives
	lockTemplate = 0x7474_0002 // key: hash of the template's name; shared by the processes that clone it
	lockSweep    = 0x7474_0003 // only one process at a time makes templates or drops leftovers
)

const emptyTemplate = "template0"

// names makes the names of this package's databases. They contain the number of the database in which the advisory
// locks are. Two URLs of one server may name different databases. Their processes do not see each other's locks, and
// without the number would take each other's databases for leftovers.
type names struct {
	beside  uint32
	process int32
}

func newNames(beside uint32) names { return names{beside, rand.Int32()} }

func (n names) test(number int64) string {
	return fmt.Sprintf("tasktable_test_%d_%08x_%d", n.beside, n.process, number)
}

func (n names) template(fingerprint string) string {
	sum := sha256.Sum256([]byte(fingerprint))
	return fmt.Sprintf("tasktable_template_%d_%x", n.beside, sum[:8]) // the whole sum would not fit into 63 bytes
}

// processOf returns the process number in the name of a test's database, or of an unfinished template.
func processOf(name string) (process int32, ok bool) {
	var beside uint32
	var number int64
	read, _ := fmt.Sscanf(name, "tasktable_test_%d_%08x_%d", &beside, &process, &number)
	return process, read == 3
}

// ours finds the databases of this package whose locks are in this database. It also finds those whose locks were in
// a database that no longer exists, because nobody can hold those locks.
const ours = `
SELECT d.datname FROM pg_database d
WHERE d.datname ~ '^tasktable_(test_[0-9]+_[0-9a-f]{8}_[0-9]+|template_[0-9]+_[0-9a-f]{16})$'
  AND (split_part(d.datname, '_', 3) = $1::text
       OR NOT EXISTS (SELECT FROM pg_database o WHERE o.oid::text = split_part(d.datname, '_', 3)))`

func (s *server) create(ctx context.Context, template string) (string, error) {
	name := s.names.test(s.made.Add(1))
	statement := "CREATE DATABASE " + quote(name) + " TEMPLATE " + quote(template) + s.strategy
	for {
		_, err := s.admin.Exec(ctx, statement)
		var busy *pgconn.PgError
		// 55006: a session uses the template. Only autovacuum can, because the template allows no connections.
		if !errors.As(err, &busy) || busy.Code != "55006" {
			if err != nil {
				return "", fmt.Errorf("creating a database for the test: %w", err)
			}
			return name, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return "", fmt.Errorf("creating a database for the test: %w: %w", err, busy)
		}
	}
}

func (s *server) drop(ctx context.Context, name string) error {
	if _, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping the test's database: %w", err)
	}
	return nil
}

// dropLeftovers drops the databases of processes that no longer exist, and the templates that nobody uses. Only one
// process at a time does this. The others do not wait for it.
func (s *server) dropLeftovers(ctx context.Context) error {
	got, err := s.tryLock(ctx, lockSweep, 0)
	if err != nil || !got {
		return err
	}
	defer s.unlock(ctx, lockSweep, 0)
	rows, err := s.admin.Query(ctx, ours, strconv.FormatUint(uint64(s.names.beside), 10))
	if err != nil {
		return fmt.Errorf("looking for databases left by killed tests: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("looking for databases left by killed tests: %w", err)
	}
	for _, name := range found {
		class, key := lockTemplate, hash(name)
		if process, ok := processOf(name); ok {
			class, key = lockProcess, process
		}
		if name == s.templateName() || class == lockProcess && key == s.names.process {
			continue
		}
		if err := s.dropUnused(ctx, name, class, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) dropUnused(ctx context.Context, name string, class int, key int32) error {
	got, err := s.tryLock(ctx, class, key)
	if err != nil || !got {
		return err
	}
	defer s.unlock(ctx, class, key)
	return s.drop(ctx, name)
}

func (s *server) tryLock(ctx context.Context, class int, key int32) (got bool, err error) {
	s.holderMu.Lock()
	defer s.holderMu.Unlock()
	if err := s.holder.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", class, key).Scan(&got); err != nil {
		return false, fmt.Errorf("taking an advisory lock: %w", err)
	}
	return got, nil
}

// unlock ignores the error, because a connection that cannot unlock is broken, and its locks have ended with it.
func (s *server) unlock(ctx context.Context, class int, key int32) {
	s.holderMu.Lock()
	defer s.holderMu.Unlock()
	_, _ = s.holder.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", class, key)
}

// hash returns the key of an advisory lock for a name.
func hash(name string) int32 {
	sum := sha256.Sum256([]byte(name))
	return int32(binary.BigEndian.Uint32(sum[:4]))
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
