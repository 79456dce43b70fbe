package doctor

import (
	"context"
	_ "embed"
	"regexp"
	"strings"
)

// structureSQL holds the triggers and indexes that the migrations make, as the server prints them.
// TestStructureIsWhatTheMigrationsMake compares it to a migrated database, and writes it with -update. Each statement
// ends with ";". A long one continues on lines that begin with four spaces.
//
//go:embed structure.sql
var structureSQL string

// object is an index or a trigger.
type object struct {
	Name       string
	Relation   string // the table, with its schema
	Definition string
}

var objectSyntax = regexp.MustCompile(`^CREATE (?:UNIQUE )?(INDEX|TRIGGER) (\S+) .*?ON (tasktable\.\S+) `)

// structure returns the triggers or the indexes that the schema should have.
func (e *examination) structure(kind string) []object {
	var found []object
	for statement := range strings.SplitSeq(structureSQL, ";\n") {
		statement = strings.ReplaceAll(statement, "\n    ", " ")
		parts := objectSyntax.FindStringSubmatch(statement)
		if parts != nil && parts[1] == kind {
			found = append(found, object{parts[2], e.schema.SQL(parts[3]), e.schema.SQL(statement)})
		}
	}
	return found
}

// sameVersion reports whether the structure can be compared. The structure of another version may differ.
func (e *examination) sameVersion() bool {
	if e.otherVersion {
		e.info("", "not compared: the schema is not of this program's version")
	}
	return !e.otherVersion
}

const triggersSQL = `
SELECT t.tgname::text AS name, n.nspname || '.' || c.relname AS relation, pg_get_triggerdef(t.oid) AS definition,
    t.tgenabled::text AS enabled
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND NOT t.tgisinternal ORDER BY c.relname COLLATE "C", t.tgname COLLATE "C"`

type triggerRow struct{ Name, Relation, Definition, Enabled string }

// ownServicePrefix begins the names of the triggers that roles.sql makes if applications are bound to services.
const ownServicePrefix = "task_9_own_"

// triggers compares the triggers with those that the migrations make. Without these triggers an edit draws no
// revision, running handlers do not learn of it, and the history is not written or not safe.
func (e *examination) triggers(ctx context.Context) error {
	if !e.sameVersion() {
		return nil
	}
	found, err := rows[triggerRow](ctx, e, triggersSQL, e.schema.String())
	if err != nil {
		return err
	}
	there := map[string]triggerRow{}
	for _, one := range found {
		there[one.Relation+" "+one.Name] = one
	}
	wanted := e.structure("TRIGGER")
	bad := 0
	for _, one := range wanted {
		is, exists := there[one.Relation+" "+one.Name]
		delete(there, one.Relation+" "+one.Name)
		bad++
		switch {
		case !exists:
			e.fail(
				one.Definition+";",
				"trigger %s of %s is missing: edits are not checked, fenced or recorded as they must be",
				one.Name,
				one.Relation,
			)
		case is.Enabled != "O" && is.Enabled != "A":
			e.fail("ALTER TABLE "+one.Relation+" ENABLE TRIGGER "+one.Name+";",
				"trigger %s of %s is disabled: edits are not checked, fenced or recorded as they must be",
				one.Name, one.Relation)
		case is.Definition != one.Definition:
			e.fail("DROP TRIGGER "+one.Name+" ON "+one.Relation+";\n"+one.Definition+";",
				"trigger %s of %s is another than the migrations make", one.Name, one.Relation)
		default:
			bad--
		}
	}
	e.foreignTriggers(found, there)
	if bad == 0 {
		e.ok("all %d triggers are there and enabled", len(wanted))
	}
	return nil
}

// foreignTriggers reports the triggers that the migrations do not make, in the order of all.
func (e *examination) foreignTriggers(all []triggerRow, left map[string]triggerRow) {
	for _, one := range all {
		if _, foreign := left[one.Relation+" "+one.Name]; !foreign {
			continue
		}
		switch {
		case strings.HasPrefix(one.Name, ownServicePrefix) && (one.Enabled == "O" || one.Enabled == "A"):
			// roles.sql has made it.
		case strings.HasPrefix(one.Name, ownServicePrefix):
			e.fail("ALTER TABLE "+one.Relation+" ENABLE TRIGGER "+named(one.Name)+";",
				"trigger %s of %s is disabled: applications can change the tasks of other services",
				one.Name, one.Relation)
		default:
			e.info("", "trigger %s of %s is not Tasktable's: it slows down each claim, settle and edit that fires it",
				one.Name, one.Relation)
		}
	}
}

const indexesSQL = `
SELECT i.relname::text AS name, n.nspname || '.' || c.relname AS relation, pg_get_indexdef(i.oid) AS definition,
    x.indisvalid AND x.indisready AS valid
FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS c ON c.oid = x.indrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text ORDER BY c.relname COLLATE "C", i.relname COLLATE "C"`

type indexRow struct {
	Name       string
	Relation   string
	Definition string
	Valid      bool
}

// indexes compares the indexes with those that the migrations make. Of River's indexes it compares only those that
// the engine needs.
func (e *examination) indexes(ctx context.Context) error {
	if !e.sameVersion() {
		return nil
	}
	found, err := rows[indexRow](ctx, e, indexesSQL, e.schema.String())
	if err != nil {
		return err
	}
	there := map[string]indexRow{}
	for _, one := range found {
		there[one.Name] = one
	}
	wanted := e.structure("INDEX")
	bad := 0
	for _, one := range wanted {
		is, exists := there[one.Name]
		delete(there, one.Name)
		bad++
		switch {
		case !exists:
			e.fail(concurrently(one.Definition)+";",
				"index %s of %s is missing: statements that need it read all rows instead", one.Name, one.Relation)
		case !is.Valid:
			e.fail("REINDEX INDEX CONCURRENTLY "+e.schema.String()+"."+one.Name+";",
				"index %s of %s is invalid: Postgres writes it, but does not use it", one.Name, one.Relation)
		case is.Definition != one.Definition:
			e.fail("DROP INDEX CONCURRENTLY "+e.schema.String()+"."+one.Name+";\n"+concurrently(one.Definition)+";",
				"index %s of %s is another than the migrations make: %s", one.Name, one.Relation, line(is.Definition))
		default:
			bad--
		}
	}
	e.foreignIndexes(found, there)
	if bad == 0 {
		e.ok("all %d indexes are there and valid", len(wanted))
	}
	return nil
}

// foreignIndexes reports the indexes that the migrations do not make, in the order of all. It leaves out those of
// River and goose.
func (e *examination) foreignIndexes(all []indexRow, left map[string]indexRow) {
	for _, one := range all {
		if _, foreign := left[one.Name]; !foreign || strings.HasPrefix(one.Name, "river_") ||
			strings.HasPrefix(one.Name, "goose_") {
			continue
		}
		drop := "DROP INDEX CONCURRENTLY " + e.schema.String() + "." + named(one.Name) + ";"
		if !one.Valid {
			e.warn(drop, "index %s of %s is invalid: it costs each write, and nothing uses it", one.Name, one.Relation)
		} else {
			e.info("",
				"index %s of %s is not Tasktable's: each claim and settle of a task writes to all indexes of its table",
				one.Name, one.Relation)
		}
	}
}

// concurrently changes a CREATE INDEX so that it does not block writes.
func concurrently(definition string) string {
	return strings.Replace(definition, "INDEX ", "INDEX CONCURRENTLY ", 1)
}
