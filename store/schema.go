package store

import (
	"fmt"
	"regexp"
)

// DefaultSchema is the Postgres schema that Tasktable's tables lie in unless another is configured.
const DefaultSchema = "tasktable"

// schemaName allows what needs no quoting; 46 bytes, because River puts the schema's name before its notification
// topics and Postgres cuts those at 63.
var (
	schemaName   = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,45}$`)
	schemaPrefix = regexp.MustCompile(`\btasktable\b(\.)?`)
)

// Schema is the checked name of a Postgres schema.
type Schema struct{ name string }

// NewSchema checks a name; "" is DefaultSchema. Names are 1 to 46 of a-z, 0-9 and _, not starting with a digit, so
// that they never need quoting.
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

// String is the name.
func (s Schema) String() string { return s.name }

// SQL is a statement written for the default schema, rewritten for this one. All SQL of Tasktable says "tasktable."
// before each of its objects, so it can be read, and run, as it stands.
func (s Schema) SQL(statement string) string {
	if s.name == DefaultSchema {
		return statement
	}
	return schemaPrefix.ReplaceAllString(statement, s.name+"$1")
}
