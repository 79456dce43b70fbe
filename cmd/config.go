package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
)

const configCommandHelp = `Prints the options of serve as they are in force, and the origin of each: a flag, a
variable of the environment, the file that --config names, or its default. Options of other commands follow if the
environment or the file gives them. It prints no secrets. Of a database URL it hides the password, and other secrets
as a whole.

It takes the options of serve, checks them as serve does, and connects to nothing. Exit code 2 means that one is wrong.

The file is YAML. Its keys are the names of the options without the dashes. An option of one command alone has the
command's name before it, as reconcile-timeout. An option that may be repeated is a list or a mapping:

  database-url-file: /run/secrets/database-url
  queue: {default: 50, mail: 5}
  pause: ["type:SEND_EMAIL"]
  shutdown-timeout: 2m

A key that is no option of this program is an error. A secret may stand in a file of its own: database-url-file names
one, and so does the variable DATABASE_URL_FILE. The same holds for the other secrets. --example prints a file with all
options.`

// configuration is the command config.
type configuration struct {
	*program
	printing printSettings
	example  bool
	log      *logSettings
	served   []options.Option // those of serve
}

func (p *program) configCommand() *cobra.Command {
	s := &serve{program: p}
	c := &configuration{program: p, log: &s.log, served: s.options()}
	opts := append([]options.Option{{Flag: "example", Set: options.Bool(&c.example),
		Usage: "prints a file with all options, as comments"}}, c.printing.options()...)
	return p.Bind(&cobra.Command{
		Use:   "config",
		Short: "Prints the options in force, and where each was said",
		Long:  configCommandHelp,
		Example: `  tasktable config --config tasktable.yaml
  TASKTABLE_QUEUES=default=50 tasktable config --output json
  tasktable config --example > tasktable.yaml`,
	}, append(opts, c.served...), c.run)
}

func (c *configuration) run(command *cobra.Command) error {
	if c.example {
		_, err := fmt.Fprint(c.stdout, c.Example(c.served))
		return err
	}
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
