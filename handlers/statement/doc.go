// Package statement is the variant RUN_SQL: it runs an SQL statement that the node's configuration names. So a cron
// line of psql becomes a task.
//
//	statements, err := statement.Variant(statement.Config{Statements: map[string]statement.Statement{
//		"old-sessions": {
//			SQL: "DELETE FROM sessions WHERE seen_at < now() - @age", Role: "cleaner",
//			Params: map[string]string{"age": "interval"},
//		},
//	}})
//	registry, err := handlers.NewRegistry(statements)
//
// The payload is contract.RunSQL, in a package of its own for services that only schedule. It names a statement and the
// values of its parameters, and nothing else can be run. Those who may schedule tasks can only choose among the
// statements of the configuration. The program tasktable has no statements unless its option --commands names a file
// with some. README.md of package command shows such a file.
//
//	SELECT tasktable.schedule('{"type": "RUN_SQL", "statement": "old-sessions", "params": {"age": "30 days"}}');
//
// # Exactly once
//
// The statement runs in the transaction that also completes its task, in the node's own database. So both commit, or
// neither does. A statement that calls other services (dblink, an extension that sends) repeats these calls if the
// transaction is rolled back. Statements that Postgres refuses in a transaction, such as VACUUM and CREATE INDEX
// CONCURRENTLY, are commands for package command.
//
// # Parameters
//
// @name in the SQL stands for a parameter, except in quotes and comments. Its type is declared, and a task must give
// all parameters. They are values: no text of a task becomes a part of the SQL. null is refused.
//
//	text                  a string
//	bigint                a whole number
//	numeric               a number
//	boolean               true or false
//	timestamptz           a string such as 2027-01-31T09:30:00Z
//	date                  a string such as 2027-01-31
//	interval              a string such as 30 days or 1 hour 30 minutes
//	uuid                  a string
//	jsonb                 any JSON
//	text[], bigint[]      a list of strings, or of whole numbers
//
// # Role
//
// The statement has the rights of its Role alone. The node's role must be a member of it. Write tables with their
// schema, because "$user" in the search_path is the Role then. A role protects from mistakes. It does not protect from
// a hostile function that the statement calls, because the function can take the node's role back (RESET ROLE).
// ReadOnly has the same limit.
//
// # Outcomes
//
//	the statement succeeds             completes the task, with a contract.Result
//	an unknown statement               permanent; the error names those that the node has
//	a parameter breaks its rule        permanent; the error names the field and the rule
//	a missing right, role or table     permanent, as all errors of SQLSTATE 42, 3D and 3F
//	a wrong value                      permanent, as all errors of SQLSTATE 22
//	a write in spite of ReadOnly       permanent, as all errors of SQLSTATE 25, 2D and 0A
//	the timeout, a deadlock, others    retried by the backoff
//
// An error has Postgres's message and SQLSTATE, and not the detail, which often has rows.
package statement
