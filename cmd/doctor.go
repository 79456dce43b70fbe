package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled/doctor"
)

const doctorHelp = `Examines a deployment. Is the database fit for it? Are its tables whole? Does a node lead? Is
anything late, stuck or dead? Each finding comes with its remedy. The levels are ok, info, warning (it works, but not
as it should, or not for long) and error (something does not work, or a promise does not hold).

It only reads, in transactions of a few seconds at most, and goes on when a check fails. It sees only the rows that its
role may read. The auditor sees nearly everything, and an application much less. If a check could not read its rows, it
says so. To see how long the transactions of other roles last, GRANT pg_read_all_stats TO its role.

Run it with the environment of a node, so that it connects to the database in the same way and knows the node's options.

It ends with exit code 7 if there is an error or, with --strict, a warning. It ends with 4 if the database cannot be
reached.`

const doctorExample = `  tasktable doctor
  tasktable doctor --strict && kubectl rollout …                # before a deployment
  tasktable doctor --output json | jq -r '.findings[] | select(.level == "error") | .found'
  tasktable doctor --skip attention,bloat                       # leave out known findings and slow checks
  tasktable doctor --check leader --check nodes`

// examine is the command doctor.
type examine struct {
	*program
	database databaseSettings
	engine   engineSettings
	log      logSettings
	printing printSettings
	strict   bool
	only     []string
	skip     []string
}

func (p *program) doctorCommand() *cobra.Command {
	e := &examine{program: p}
	names := doctor.Checks()
	opts := []options.Option{
		{Flag: "strict", Variable: "TASKTABLE_DOCTOR_STRICT", Set: options.Bool(&e.strict),
			Usage: "exit code 7 for warnings, too"},
		{Flag: "check", Variable: "TASKTABLE_DOCTOR_CHECK", Kind: "name", Repeatable: true,
			Set:      options.SomeOf(&e.only, names...),
			Complete: options.Words(names...),
			Usage: "only this check; may be repeated, or separated by commas. The checks are " +
				strings.Join(names, ", ")},
		{Flag: "skip", Variable: "TASKTABLE_DOCTOR_SKIP", Kind: "name", Repeatable: true,
			Set:      options.SomeOf(&e.skip, names...),
			Complete: options.Words(names...),
			Usage:    "not this check; may be repeated, or separated by commas"},
	}
	opts = append(opts, e.printing.options()...)
	for _, one := range e.engine.options() {
		if one.Flag == "engine-conns" { // the option of a node that the checks need
			opts = append(opts, one)
		}
	}
	opts = append(opts, e.database.maxConnsOption())
	opts = append(opts, e.database.options()...)
	opts = append(opts, e.log.quietOptions()...)
	return p.Bind(&cobra.Command{
		Use:     "doctor",
		Short:   "Examines a deployment, and says what to do about what it finds",
		Long:    doctorHelp,
		Example: doctorExample,
	}, opts, func(command *cobra.Command) error { return e.run(command.Context()) })
}

func (e *examine) run(ctx context.Context) (err error) {
	logger := e.log.logger(e.stderr)
	e.WarnUnknown(logger)
	d, err := e.database.pools(ctx, logger) // whether it answers is the first finding
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	report, err := doctor.Examine(ctx, doctor.Config{
		Pool: d.pool, Connect: d.session, Schema: e.database.schema, Only: e.only, Skip: e.skip,
		EngineConns: e.engine.EngineConns,
	})
	if err != nil {
		return err
	}
	to := e.printing.printer(ctx, e.program, e.now)
	if to.JSON {
		err = to.Document(report)
	} else {
		err = printExamination(to, report)
	}
	if err != nil {
		return err
	}
	return verdict(report, e.strict)
}

// verdict is the error, and so the exit code, that a report comes to.
func verdict(report doctor.Report, strict bool) error {
	failed := &unhealthyError{summary(report)}
	switch {
	case !report.Reached:
		return &unreachableError{errors.New("the database at " + report.Database + " cannot be reached")}
	case report.Count(doctor.Error) > 0, strict && report.Count(doctor.Warning) > 0:
		return failed
	}
	return nil
}

// summary counts the findings.
func summary(report doctor.Report) string {
	var counts []string
	for _, one := range []struct {
		level doctor.Level
		what  string
	}{{doctor.Error, "error"}, {doctor.Warning, "warning"}, {doctor.Info, "info"}, {doctor.OK, "ok"}} {
		n := report.Count(one.level)
		what := one.what
		if n != 1 && one.level != doctor.OK && one.level != doctor.Info {
			what += "s"
		}
		counts = append(counts, fmt.Sprintf("%d %s", n, what))
	}
	return strings.Join(counts, ", ")
}

var levelColors = map[doctor.Level]term.Color{doctor.OK: term.Green, doctor.Info: term.Blue,
	doctor.Warning: term.Yellow, doctor.Error: term.Red}

// printExamination prints a line for each finding, and below it the remedy. It does not wrap the remedy, so that
// people can copy it.
func printExamination(to term.Printer, report doctor.Report) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, schema %s, role %s, %s\n\n", report.Database, report.Schema, report.Role,
		report.At.In(to.Zone).Format(time.RFC3339))
	checkWidth := 0
	for _, name := range doctor.Checks() {
		checkWidth = max(checkWidth, len(name))
	}
	indent := strings.Repeat(" ", len(doctor.Warning)+2+checkWidth+2)
	for _, one := range report.Findings {
		level := term.Paint(fmt.Sprintf("%-*s", len(doctor.Warning), one.Level), levelColors[one.Level], to.Colors)
		lines := wrap(term.Printable(one.Found), to.Width-len(indent))
		fmt.Fprintf(&out, "%s  %-*s  %s\n", level, checkWidth, one.Check, strings.Join(lines, "\n"+indent))
		for do := range strings.Lines(one.Do) {
			fmt.Fprintf(&out, "%s%s %s\n", indent, term.Paint("→", term.Bold, to.Colors),
				term.Printable(strings.TrimSuffix(do, "\n")))
		}
	}
	fmt.Fprintf(&out, "\n%s\n", summary(report))
	if _, err := fmt.Fprint(to.Data, out.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// wrap breaks a text between words into lines of at most room characters. It breaks nothing if room is under 20.
func wrap(text string, room int) []string {
	if room < 20 {
		return []string{text}
	}
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && len([]rune(lines[last]))+1+len([]rune(word)) <= room {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
