package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

// migrationFiles lists the migrations as a release has them: each file's name and a hash of it.
func migrationFiles(t *testing.T) string {
	t.Helper()
	names, err := migrations.Names()
	check(t, err)
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "%s %x\n", name, sha256.Sum256([]byte(read(t, name))))
	}
	return list.String()
}

// A released migration is never edited: databases have it as it was. Those after the first release only add.
func TestReleasedMigrations(t *testing.T) {
	t.Parallel()
	releases, err := filepath.Glob(filepath.Join(statementsFolder, "*.migrations"))
	check(t, err)
	now := migrationFiles(t)
	first := "" // the shortest list is the oldest release's
	for _, release := range releases {
		had := read(t, release)
		if !strings.HasPrefix(now, had) {
			t.Errorf("%s has other migrations than there are now; it had\n%s", release, had)
		}
		if first == "" || len(had) < len(first) {
			first = had
		}
	}
	if first == "" {
		return // nothing is released
	}
	for line := range strings.Lines(strings.TrimPrefix(now, first)) {
		name, _, _ := strings.Cut(line, " ")
		up, _, _ := strings.Cut(read(t, name), "-- +goose Down")
		for _, problem := range problems(up) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// rules are what a migration must not have, and why not.
var rules = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{
		regexp.MustCompile(`(?i)\bDROP\s+(TABLE|COLUMN|VIEW|TYPE|DOMAIN|SEQUENCE|SCHEMA)\b`),
		"the release before uses it",
	},
	{
		regexp.MustCompile(`(?i)\bDROP\s+FUNCTION\b`),
		"statements that are about to call it fail, though it be made anew at once: CREATE OR REPLACE, or another name",
	},
	{regexp.MustCompile(`(?i)\bRENAME\b`), "the release before knows the old name"},
	{
		regexp.MustCompile(`(?i)\bALTER\s+COLUMN\s+\S+\s+(SET\s+DATA\s+)?TYPE\b`),
		"it writes the whole table anew, and plans of the release before break",
	},
	{
		regexp.MustCompile(`(?i)\bSET\s+NOT\s+NULL\b|\bADD\s+(CONSTRAINT|CHECK|UNIQUE|FOREIGN)\b`),
		"the release before may write what it refuses",
	},
}

var (
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	addedColumn = regexp.MustCompile(`(?i)\bADD\s+COLUMN\s[^,;]*`)
	lockedTable = regexp.MustCompile(`(?is)\b(?:ALTER\s+TABLE|LOCK\s+TABLE|CREATE\s+(?:UNIQUE\s+)?INDEX\s[^;]*?\bON|` +
		`CREATE\s+(?:OR\s+REPLACE\s+)?TRIGGER\s[^;]*?\bON)\s+(?:ONLY\s+|IF\s+EXISTS\s+)?(tasktable\.\w+)`)
	madeTable = regexp.MustCompile(`(?i)\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(tasktable\.\w+)`)
)

// problems are what keeps a migration from being applied while the release before works.
func problems(up string) (found []string) {
	up = sqlComment.ReplaceAllString(up, "")
	for _, rule := range rules {
		if bad := rule.pattern.FindString(up); bad != "" {
			found = append(found, bad+": "+rule.why)
		}
	}
	for _, column := range addedColumn.FindAllString(up, -1) {
		if upper := strings.ToUpper(column); strings.Contains(upper, "NOT NULL") &&
			!strings.Contains(upper, "DEFAULT") {
			found = append(found, column+": the release before does not fill it")
		}
	}
	var made, locked []string
	for _, table := range madeTable.FindAllStringSubmatch(up, -1) {
		made = append(made, table[1])
	}
	for _, table := range lockedTable.FindAllStringSubmatch(up, -1) {
		if !slices.Contains(locked, table[1]) && !slices.Contains(made, table[1]) {
			locked = append(locked, table[1])
		}
	}
	if len(locked) > 1 {
		found = append(
			found,
			strings.Join(locked, " and ")+
				": who locks one and waits for the other may stand in somebody's way who did it the other way round; "+
				"a file for each",
		)
	}
	return found
}

func TestProblemsOfMigrations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ want, up string }{
		{
			"",
			`ALTER TABLE tasktable.scheduled_tasks ADD COLUMN note text, ADD COLUMN n int NOT NULL DEFAULT 0; ` +
				`-- DROP TABLE x`,
		},
		{"", `CREATE OR REPLACE FUNCTION tasktable.cancel(id text) RETURNS void LANGUAGE sql AS ''`},
		{"", `CREATE TABLE tasktable.new (id int); CREATE INDEX new_id ON tasktable.new (id);
			ALTER TABLE tasktable.nodes ADD COLUMN zone text`},
		{"", `DROP INDEX tasktable.one; CREATE INDEX one ON tasktable.nodes (zone)`},
		{"DROP FUNCTION", `DROP FUNCTION tasktable.cancel(text);
			CREATE FUNCTION tasktable.cancel(id text, why text DEFAULT NULL) RETURNS void LANGUAGE sql AS ''`},
		{"DROP COLUMN", `ALTER TABLE tasktable.nodes DROP COLUMN host`},
		{"RENAME", `ALTER TABLE tasktable.nodes RENAME COLUMN host TO machine`},
		{"ALTER COLUMN host TYPE", `ALTER TABLE tasktable.nodes ALTER COLUMN host TYPE name`},
		{"ADD COLUMN zone text NOT NULL", `ALTER TABLE tasktable.nodes ADD COLUMN zone text NOT NULL`},
		{"ADD CONSTRAINT", `ALTER TABLE tasktable.nodes ADD CONSTRAINT named CHECK (host <> '')`},
		{"tasktable.nodes and tasktable.pauses", `ALTER TABLE tasktable.nodes ADD COLUMN zone text;
			CREATE INDEX i ON tasktable.pauses (name)`},
		{"tasktable.nodes and tasktable.scheduled_tasks", `CREATE TRIGGER a BEFORE UPDATE ON tasktable.nodes
			FOR EACH ROW EXECUTE FUNCTION tasktable.f();
			LOCK TABLE tasktable.scheduled_tasks; CREATE INDEX b ON tasktable.nodes`},
	} {
		got := problems(test.up)
		if test.want == "" && len(got) > 0 ||
			test.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", test.up, got, test.want)
		}
	}
}

// A second function of the same name, with a default more, makes calls ambiguous.
func TestFunctionsHaveOneSignature(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	twice := lines(ctx, t, storetest.Pool(t), `SELECT proname::text FROM pg_proc
		WHERE pronamespace = 'tasktable'::regnamespace GROUP BY 1 HAVING count(*) > 1`)
	if len(twice) > 0 {
		t.Errorf("functions with more than one signature: %v", twice)
	}
}
