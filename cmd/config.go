package cmd

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
)

const configCommandHelp = `Prints the options of serve as they are in force, and the origin of each: a flag, a
variable of the environment, or its default. Options of other commands follow if the environment gives them. It prints
no secrets. Of a database URL it hides the password, and other secrets as a whole.

It takes the options of serve, checks them as serve does, and connects to nothing. Exit code 2 means that one is wrong.

An option of one command alone has the command's name before it, as reconcile-timeout. A secret may stand in a file of
its own, which a variable such as DATABASE_URL_FILE names.`

// configuration is the command config.
type configuration struct {
	*program
	printing printSettings
	log      *logSettings
	served   []options.Option // those of serve
}

func (p *program) configCommand() *cobra.Command {
	s := &serve{program: p}
	c := &configuration{program: p, log: &s.log, served: s.options()}
	return p.Bind(&cobra.Command{
		Use:   "config",
		Short: "Prints the options in force, and where each was said",
		Long:  configCommandHelp,
		Example: `  tasktable config --queue default=50
  TASKTABLE_QUEUES=default=50 tasktable config --output json`,
	}, append(c.printing.options(), c.served...), c.run)
}

func (c *configuration) run(command *cobra.Command) error {
	c.WarnUnknown(c.log.logger(c.stderr))
	rows, err := c.Settings(command.Flags(), c.served)
	if err != nil {
		return err
	}
	t := term.NewTable("OPTION", "VALUE", "FROM")
	for _, row := range rows {
		t.Add(row.Option, row.Value, strings.TrimSpace(string(row.From)+" "+row.Place))
	}
	to := c.printing.printer(command.Context(), c.program, time.Time{})
	return to.List(rows, t, "")
}
