package cmd

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/tasktable/tasktable/scheduled/prove"
)

func printProof(to io.Writer, result prove.Result) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROMISE\tFOUND\tVERDICT")
	for _, verdict := range result.Verdicts {
		word := "OK"
		if !verdict.Held {
			word = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", verdict.Promise, verdict, word)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	k, d := result.Kills, result.Delays
	fmt.Fprintf(to, "\n%d nodes killed (%d of them led) within %d handlers; %d claims taken back\n",
		k.Nodes, k.Leaders, k.CutOff, k.TakenBack)
	fmt.Fprintf(to, "from a kill until what it cut off began again on another node: p99 %.1f s, max %.1f s\n", k.P99,
		k.Max)
	fmt.Fprintf(to, "from when an attempt was due to its start: p50 %s, p99 %s, max %s\n",
		prove.Millis(d.P50), prove.Millis(d.P99), prove.Millis(d.Max))
	fmt.Fprintf(to, "\nThe SQL of these verdicts, for the database %s. What the last column counts breaks the "+
		"promise.\n",
		result.Database)
	for _, verdict := range result.Verdicts {
		fmt.Fprintf(to, "\n-- %s\n%s;\n", verdict.Promise, verdict.SQL)
	}
	return nil
}

// psql says how to open the database, without the password. It is no data, and goes where the progress does.
func (v *proof) psql(result prove.Result, d *database) error {
	if !result.Kept {
		fmt.Fprintf(v.stderr, "\nThe database %s is dropped; --keep leaves it there.\n", result.Database)
		return nil
	}
	if v.database.url == "" {
		fmt.Fprintf(v.stderr, "\nThe database %s is on the private Postgres, which stops with the last command that "+
			"uses it.\n"+
			"To look into it run \"tasktable serve --migrate\", and take the psql line it prints with this "+
			"database's name.\n",
			result.Database)
		return nil
	}
	server := d.direct.Config().ConnConfig
	query := url.Values{
		"host": {server.Host}, "port": {strconv.Itoa(int(server.Port))}, "user": {server.User},
		"dbname": {result.Database},
	}
	fmt.Fprintf(v.stderr, "\nTo look into it: psql 'postgresql:///?%s'\n", query.Encode())
	return nil
}
