package storetest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
)

// templateName contains the fingerprint of the migrations. Changed migrations therefore get a new template, and an
// old template is never mistaken for it.
func (s *server) templateName() string { return s.names.template(migrations.Fingerprint()) }

// prepareTemplate makes the template, unless a process has made it before. It keeps the template from being dropped
// while this process lives.
func (s *server) prepareTemplate() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	name := s.templateName()
	// Wait for the process that makes the template or drops leftovers, because a leftover could be this template.
	if err := s.lock(ctx, "SELECT pg_advisory_lock($1, $2)", lockSweep, 0); err != nil {
		return "", err
	}
	defer s.unlock(ctx, lockSweep, 0)
	if err := s.lock(ctx, "SELECT pg_advisory_lock_shared($1, $2)", lockTemplate, hash(name)); err != nil {
		return "", err
	}
	var there bool
	const exists = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
	if err := s.admin.QueryRow(ctx, exists, name).Scan(&there); err != nil {
		return "", fmt.Errorf("looking for the template: %w", err)
	}
	if there {
		return name, nil
	}
	if err := s.makeTemplate(ctx, name); err != nil {
		return "", err
	}
	return name, nil
}

// makeTemplate migrates a database under the name of a test's database, and renames it at the end. If the process is
// killed halfway, there is only a leftover, and no half-migrated template.
func (s *server) makeTemplate(ctx context.Context, name string) error {
	unfinished, err := s.create(ctx, emptyTemplate)
	if err != nil {
		return err
	}
	if err := s.migrate(ctx, unfinished); err != nil {
		_ = s.drop(ctx, unfinished)
		return err
	}
	// The template must not allow connections, because a template that a session uses cannot be cloned.
	for _, statement := range []string{
		"ALTER DATABASE " + quote(unfinished) + " WITH ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + quote(unfinished) + " RENAME TO " + quote(name),
	} {
		if _, err := s.admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("turning the migrated database into the template: %w", err)
		}
	}
	return nil
}

func (s *server) migrate(ctx context.Context, database string) error {
	pool, err := pgxpool.New(ctx, s.urlOf(database))
	if err != nil {
		return fmt.Errorf("opening a pool to migrate: %w", err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, ""); err != nil {
		return fmt.Errorf("migrating the template: %w", err)
	}
	return nil
}

func (s *server) lock(ctx context.Context, statement string, class int, key int32) error {
	s.holderMu.Lock()
	defer s.holderMu.Unlock()
	if _, err := s.holder.Exec(ctx, statement, class, key); err != nil {
		return fmt.Errorf("taking an advisory lock: %w", err)
	}
	return nil
}
