package statement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/statement/contract"
	"github.com/tasktable/tasktable/store"
)

// DefaultTimeout is the default of Statement.Timeout.
const DefaultTimeout = 5 * time.Minute

const (
	minTimeout    = 100 * time.Millisecond
	maxTimeout    = 24 * time.Hour
	maxStatements = 500
	maxSQL        = 64 << 10
	maxRows       = 1000
	maxIdentifier = 63 // of Postgres, in bytes
)

// Config has the statements that tasks may choose, by their names. A name has 1 to 64 of a-z, 0-9 and inner . _ -. At
// least one is required, and at most 500 are allowed.
type Config struct {
	Statements map[string]Statement
}

// Statement is one SQL statement with the rules of its run. Only SQL is required. The names in the tags are those of
// the file that the program tasktable reads.
type Statement struct {
	// SQL is one statement. @name stands for the parameter of that name.
	SQL string `yaml:"sql"`
	// Params are the types of the parameters, by their names. The documentation of the package lists the types.
	Params map[string]string `yaml:"params"`
	// Role is the database role that runs the statement, by SET LOCAL ROLE. The node's own role must be a member of it.
	// Default (""): the node's own role.
	Role string `yaml:"role"`
	// ReadOnly refuses a statement that writes.
	ReadOnly bool `yaml:"read-only"`
	// Timeout is how long the statement may take, from 100 ms to 24 hours. Postgres ends it then (statement_timeout).
	// The task's lease is extended accordingly. Default (0): 5 minutes.
	Timeout time.Duration `yaml:"timeout"`
	// Rows is how many of the returned rows are kept in the result, up to 1,000, and 64 KiB in all. Default (0): none.
	Rows int `yaml:"rows"`
}

// known is a checked Statement.
type known struct {
	Statement

	name   string
	sql    string  // with $1 for the first of params
	params []param // in the order of the numbers in sql
}

// New checks the configuration. It asks no database. The error wraps store.ErrInvalid and names each bad field.
func New(config Config) (*Runner, error) {
	r := &Runner{statements: map[string]*known{}}
	var errs []error
	if n := len(config.Statements); n == 0 || n > maxStatements {
		errs = append(errs, fmt.Errorf("statements must be 1 to %d", maxStatements))
	}
	for _, name := range slices.Sorted(maps.Keys(config.Statements)) {
		statement := config.Statements[name]
		if err := contract.CheckName(name); err != nil {
			errs = append(errs, fmt.Errorf("statements: %q %w", name, err))
		}
		checked, problems := statement.check()
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("statements.%s.%s", name, problem))
		}
		checked.name, checked.Timeout = name, cmp.Or(statement.Timeout, DefaultTimeout)
		r.statements[name] = checked
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("statement.Config: %w: %w", store.ErrInvalid, err)
	}
	return r, nil
}

// check returns the rules that the statement breaks, each after its field.
func (s Statement) check() (checked *known, found []string) {
	broken := func(breaks bool, format string, args ...any) {
		if breaks {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	broken(strings.TrimSpace(s.SQL) == "" || len(s.SQL) > maxSQL || strings.Contains(s.SQL, "\x00"),
		"sql must be one statement of 1 to %d bytes", maxSQL)
	if reason := refusedBeginning(s.SQL); reason != "" {
		broken(true, "sql %s", reason)
	}
	broken(len(s.Role) > maxIdentifier || strings.ContainsFunc(s.Role, func(r rune) bool { return r < ' ' }),
		"role must be a name of at most %d bytes", maxIdentifier)
	broken(s.Timeout != 0 && (s.Timeout < minTimeout || s.Timeout > maxTimeout),
		"timeout must be from %s to %s", minTimeout, maxTimeout)
	broken(s.Rows < 0 || s.Rows > maxRows, "rows must be from 0 to %d", maxRows)
	checked = &known{Statement: s}
	named := pgx.NamedArgs{}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		kind, there := kinds[s.Params[name]]
		broken(!there, "params.%s must be one of %s", name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		named[name] = param{name: name, kind: kind, typeName: s.Params[name]}
	}
	// It replaces the names outside of quotes and comments, and calls neither a connection nor the values.
	sql, args, err := named.RewriteQuery(context.Background(), nil, s.SQL, nil)
	broken(err != nil, "sql cannot be read: %v", err)
	checked.sql = sql
	for _, arg := range args {
		known, declared := arg.(param)
		broken(!declared, "params must have the type of each @name in sql, which has %s",
			strings.Join(placeholder.FindAllString(s.SQL, -1), ", "))
		delete(named, known.name)
		checked.params = append(checked.params, known)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		broken(true, "params.%s is not in sql, where it would be @%s", name, name)
	}
	return checked, found
}

// placeholder is used for errors alone, because it also finds what stands in quotes.
var placeholder = regexp.MustCompile(`@[A-Za-z_]\w*`)

// beginning matches the first word of a statement, after spaces and comments.
var beginning = regexp.MustCompile(`^(?:\s|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)*([A-Za-z]+)`)

// refusedBeginning returns why a statement cannot run, or "". Postgres would say so only when the task runs, or, of a
// COMMIT, not at all.
func refusedBeginning(sql string) string {
	found := beginning.FindStringSubmatch(sql)
	if found == nil {
		return ""
	}
	switch word := strings.ToUpper(found[1]); word {
	case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE":
		return "must not begin with " + word + ": the handler begins and commits the transaction"
	case "VACUUM":
		return "must not begin with VACUUM, which Postgres refuses in a transaction: run vacuumdb as a command"
	case "COPY":
		return "must not begin with COPY: run psql as a command"
	}
	return ""
}
