package store

import (
	"fmt"
	"regexp"
)

// DefaultSchema is the Postgres schema of Tasktable's tables, unless another one is configured.
const DefaultSchema = "tasktable"

// schemaName allows names that need no quoting. They have at most 46 bytes, because River puts the schema's name
// before its notification topics, and Postgres cuts those off at 63 bytes.
var (
	schemaName   = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,45}$`)
	schemaPrefix = regexp.MustCompile(`\btasktable\b(\.)?`)
)

// Schema is the checked name of a Postgres schema.
type Schema struct{ name string }

// NewSchema checks the name of a schema. "" means DefaultSchema. A name has 1 to 46 characters of a-z, 0-9 and _, and
// does not start with a digit, so that it never needs quoting. The error wraps ErrInvalid.
func NewSchema(name string) (Schema, error) {
	if name == "" {
		name = DefaultSchema
	}
	if !schemaName.MatchString(name) {
		return Schema{}, fmt.Errorf("%w: schema %q must be 1 to 46 of a-z, 0-9 and _, not starting with a digit",
			ErrInvalid, name)
	}
	return Schema{name: name}, nil
}

// String returns the name.
func (s Schema) String() string { return s.name }

// SQL rewrites a statement that is written for the default schema, for this one. All SQL of Tasktable has
// "tasktable." before each of its objects. Therefore it can be read, and run, as it is written.
func (s Schema) SQL(statement string) string {
	if s.name == DefaultSchema {
		return statement
	}
	return schemaPrefix.ReplaceAllString(statement, s.name+"$1")
}
