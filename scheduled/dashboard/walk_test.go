package dashboard_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// rawHandlers are handlers that neither Dashboard.page nor Dashboard.act has added. Each looks after who may use it
// itself, so each has tests of its own.
var rawHandlers = []string{
	"GET /", "GET /live", "GET /search", "GET /static/{file}", "POST /look", "POST /sign-in", "POST /sign-out",
}

var handled = regexp.MustCompile(`mux\.Handle(?:Func)?\("([^"]+)"`)

// A handler that the walks of these tests do not know could show data to strangers.
func TestEachHandlerIsWalked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			found := handled.FindStringSubmatch(line)
			if found == nil || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(strings.TrimSpace(line), "//") ||
				slices.Contains(rawHandlers, found[1]) || file == "act.go" && found[1] == "POST " {
				continue
			}
			t.Errorf("%s adds the handler %q past page and act: use these, or add it to rawHandlers with its own tests",
				file, found[1])
		}
	}
}

var part = regexp.MustCompile(`\{([^}]*)\}`)

// example returns a path of a pattern. The examples are by the pattern and the part, or by the part alone.
func example(t *testing.T, pattern string, examples map[string]string) string {
	t.Helper()
	return part.ReplaceAllStringFunc(pattern, func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "$" {
			return ""
		}
		for _, key := range []string{pattern + " " + name, strings.Split(pattern, "/")[1] + " " + name, name} {
			if value, ok := examples[key]; ok {
				return url.PathEscape(value)
			}
		}
		t.Fatalf("the pattern %s has a part %s without an example: add one to the examples of this test", pattern, found)
		return ""
	})
}

// fingerprint is the content of all tables that a person can change.
func (b *board) fingerprint() string {
	b.Helper()
	var text strings.Builder
	rows, err := b.pool.Query(b.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = 'tasktable'
		AND (tablename ~ '^(scheduled|notice|pause|limits|calendars|task_defaults)'
			OR tablename IN ('api_keys', 'nodes'))
		ORDER BY 1`)
	if err != nil {
		b.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	if len(tables) < 8 {
		b.Fatalf("only the tables %v", tables)
	}
	for _, name := range tables {
		var sum string
		err := b.pool.QueryRow(b.Context(), fmt.Sprintf(`SELECT count(*) || ' ' ||
			coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM tasktable.%s AS t`, name)).Scan(&sum)
		if err != nil {
			b.Fatal(err)
		}
		text.WriteString(name + " " + sum + "\n")
	}
	return text.String()
}

// unchanged fails the test if anything differs from a fingerprint.
func (b *board) unchanged(before, after string) {
	b.Helper()
	if now := b.fingerprint(); now != before {
		b.Errorf("%s has changed something:\n%s\nwas\n%s", after, now, before)
	}
}
