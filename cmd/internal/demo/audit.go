package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// audit asks all questions, prints their SQL and answers, and fails if one is not as expected.
func (d *demo) audit(ctx context.Context) error {
	fmt.Fprintf(d.Out, "\nThe audit. $1 is '-%s', the end of this run's ids.\n", d.run)
	var wrong []error
	for _, q := range questions() {
		fmt.Fprintf(d.Out, "\n-- %s%s;\n\n", q.asks, q.sql)
		answer, err := d.ask(ctx, q.sql)
		if err != nil {
			return err
		}
		if q.expects != "" && answer != q.expects {
			wrong = append(wrong, fmt.Errorf("%q: expected %s; got %s", q.asks, q.expects, answer))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("not all happened that should have:\n%w", err)
	}
	fmt.Fprintln(d.Out, "\nAll happened that should have.")
	return nil
}

// ask prints the answer as a table, and returns it in one line.
func (d *demo) ask(ctx context.Context, sql string) (string, error) {
	var args []any
	if strings.Contains(sql, "$1") {
		args = []any{"-" + d.run}
	}
	rows, err := d.Pool.Query(ctx, sql, args...)
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	var header []string
	for _, field := range rows.FieldDescriptions() {
		header = append(header, field.Name)
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "   %s\n", strings.Join(header, "\t"))
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		if err != nil {
			return "", err
		}
		cells := make([]string, len(values))
		for i, value := range values {
			if value != nil {
				cells[i] = fmt.Sprint(value)
			}
		}
		fmt.Fprintf(table, "   %s\n", strings.Join(cells, "\t"))
		return strings.Join(cells, " "), nil
	})
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	return strings.Join(lines, ", "), table.Flush()
}
