package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasktable/tasktable/store"
)

// ErrPrerelease is wrapped by the error for a schema that other migrations made before the first release.
var ErrPrerelease = errors.New("the schema was made before the first release")

// prereleaseSQL recognizes such a schema: expected_execution_time was the twelfth column of its table. Now jitter is.
const prereleaseSQL = `
SELECT EXISTS (
    SELECT 1 FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'scheduled_tasks' AND a.attname = 'expected_execution_time' AND a.attnum = 12
)`

// CheckReleased returns an error that wraps ErrPrerelease for a schema that was made before the first release,
// because its migrations had other numbers. For every other schema it returns nil, even for one that does not exist.
// Up, Down, Status and Check call it.
func CheckReleased(ctx context.Context, on Queryer, schema store.Schema) error {
	var prerelease bool
	if err := on.QueryRow(ctx, prereleaseSQL, schema.String()).Scan(&prerelease); err != nil {
		return fmt.Errorf("look at the tables of schema %s: %w", schema, err)
	}
	if !prerelease {
		return nil
	}
	return fmt.Errorf("%w, and cannot be brought to this version: save the tasks that you need, run %q, and migrate "+
		"again", ErrPrerelease, schema.SQL("DROP SCHEMA tasktable CASCADE"))
}
