package cmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

var shortProof = []string{"prove", "--seconds=3", "--tasks=300", "--kill-every=1s"}

// proofDatabase connects to the database that a proof has named on stderr.
func proofDatabase(t *testing.T, server, line string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	_, config.Database, _ = strings.Cut(line, "database ")
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// The verdicts with their SQL go to the standard output, what happens meanwhile to the other.
func TestProve(t *testing.T) {
	t.Parallel()
	server := storetest.EmptyURL(t)
	p := start(t, []string{"DATABASE_URL=" + server}, append(shortProof, "--keep")...)
	conn := proofDatabase(t, server, p.waitFor("database tasktable_prove_"))
	p.waitFor("killed node")
	got := p.end()
	got.want(t, exitOK, "lost 0  twice 0  early 0", "comes in its place",
		"psql 'postgresql:///?dbname="+conn.Config().Database)
	if password := conn.Config().Password; password != "" && strings.Contains(got.stdout+got.stderr, password) {
		t.Errorf("the password is shown:\n%s\n%s", got.stderr, got.stdout)
	}
	for _, text := range []string{
		"no accepted task is lost", "accepted 300,", "OK\n", "nodes killed (", "to its start: p50 ",
		"FROM proof.accepted AS a\n",
	} {
		if !strings.Contains(got.stdout, text) {
			t.Errorf("stdout lacks %q:\n%s", text, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "FAILED") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	for query := range strings.SplitSeq(got.stdout[strings.Index(got.stdout, "\n-- "):], ";\n") { // as a reader would
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Errorf("%v:\n%s", err, query)
		}
	}
	dropProof(t, server, conn)
}

func dropProof(t *testing.T, server string, of *pgx.Conn) {
	t.Helper()
	execute(t, server, "DROP DATABASE "+pgx.Identifier{of.Config().Database}.Sanitize()+" WITH (FORCE)")
}

// Somebody meddles with the history while it goes on: that is a broken promise like any other.
func TestProveFindsABrokenPromise(t *testing.T) {
	t.Parallel()
	const once = "at most one settled completion per revision"
	server := storetest.EmptyURL(t)
	p := start(t, []string{"DATABASE_URL=" + server}, append(shortProof, "--json")...)
	conn := proofDatabase(t, server, p.waitFor("database tasktable_prove_"))
	for meddled := false; !meddled; { // as soon as a task has been completed
		p.waitFor("lost 0")
		tag, err := conn.Exec(t.Context(), `
			INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
				finished_at, outcome)
			SELECT -1, task_id, type, revision, attempt, scheduled_at, finished_at, outcome
			FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED' LIMIT 1`)
		if err != nil {
			t.Fatal(err)
		}
		meddled = tag.RowsAffected() == 1
	}
	got := p.end()
	got.want(t, exitBroken, "a promise was broken: "+once+" (1 times)", "is dropped; --keep leaves it there")
	var object struct {
		Verdicts []struct {
			Promise string
			Held    bool
			Broken  int
			SQL     string
		}
		Kills struct{ Nodes int }
	}
	if err := json.Unmarshal([]byte(got.stdout), &object); err != nil || object.Kills.Nodes == 0 ||
		len(object.Verdicts) == 0 {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	for _, v := range object.Verdicts {
		if held := v.Promise != once; v.Held != held || (v.Broken == 0) != held || v.SQL == "" {
			t.Errorf("verdict %+v", v)
		}
	}
}
