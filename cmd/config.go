package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

const configCommandHelp = `Prints the options of serve as they are in force, and where each was said: by a flag, by a variable of the environment, in
the file that --config names, or nowhere, so that its default holds. Options of other commands follow if the environment
or the file gives them. Secrets are not shown: of a database URL the password, of others all.

It takes the options of serve, checks them as serve does, and connects to nothing: exit code 2 says that one is wrong.

The file is YAML. Its keys are the options' names without the dashes; those of one command alone begin with the command's
name, as reconcile-timeout. What may be given several times is a list, or a mapping:

  database-url-file: /run/secrets/database-url
  queue: {default: 50, mail: 5}
  pause: ["type:SEND_EMAIL"]
  shutdown-timeout: 2m

A key that is no option of this program is an error. Secrets may stand in files of their own: database-url-file names one,
and so does the variable DATABASE_URL_FILE; the others likewise. --example prints a file with all there are.`

// configuration is the command config.
type configuration struct {
	*program
	printing printSettings
	example  bool
	log      *logSettings
	served   []option // those of serve
}

func (p *program) configCommand() *cobra.Command {
	s := &serve{program: p}
	c := &configuration{program: p, log: &s.log, served: s.options()}
	options := append([]option{{flag: "example", set: toggle(&c.example), usage: "prints a file with all options, as comments"}}, c.printing.options()...)
	return p.bind(&cobra.Command{
		Use:   "config",
		Short: "Prints the options in force, and where each was said",
		Long:  configCommandHelp,
		Example: `  tasktable config --config tasktable.yaml
  TASKTABLE_QUEUES=default=50 tasktable config --output json
  tasktable config --example > tasktable.yaml`,
	}, append(options, c.served...), c.run)
}

// settingRow is an option as it is printed.
type settingRow struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	From   origin `json:"from"`
	Place  string `json:"place,omitempty"`
}

func (c *configuration) run(command *cobra.Command) error {
	if c.example {
		_, err := fmt.Fprint(c.stdout, exampleFile(c.served, c.settable))
		return err
	}
	c.environment.warnUnknown(c.variables, c.log.logger(c.stderr))
	from, err := c.sources(command.Flags())
	if err != nil {
		return err
	}
	rows, err := c.rows(from)
	if err != nil {
		return err
	}
	t := newTable("OPTION", "VALUE", "FROM")
	for _, row := range rows {
		t.add(row.Option, row.Value, strings.TrimSpace(string(row.From)+" "+row.Place))
	}
	to := c.printing.printer(command.Context(), c.program, time.Time{})
	return to.list(rows, t, "")
}

// rows are serve's options, and what else is said for others.
func (c *configuration) rows(from sources) ([]settingRow, error) {
	var rows []settingRow
	var errs []error
	shown := map[string]bool{}
	for i, o := range slices.Concat([]option{configOption(new(string))}, c.served, c.settable) {
		if shown[o.flag+o.variable] {
			continue
		}
		shown[o.flag+o.variable] = true
		said, err := o.setting(from)
		others := i > len(c.served)
		if others && err == nil && said.origin != fromDefault { // those of serve have been checked
			if err = o.set(said.text); err != nil {
				err = o.wrong(err, said)
			}
		}
		errs = append(errs, err)
		if !others || said.origin != fromDefault {
			rows = append(rows, rowOf(&o, said))
		}
	}
	return rows, errors.Join(errs...)
}

func rowOf(o *option, said setting) settingRow {
	name := o.key()
	if name == "" {
		name = o.flag
	}
	row := settingRow{Option: name, Value: cmp.Or(o.shown(said.text), o.unsaid), From: said.origin, Place: said.place}
	if said.origin == fromFlag {
		row.Place = "" // it is the option's name
	}
	return row
}

const hidden = "xxxxx"

// shown is a value without what is secret in it.
func (o *option) shown(text string) string {
	switch {
	case text == "" && o.value == "":
		return "false"
	case text == "":
		return ""
	case o.secret && o.value == "url":
		return shownURL(text)
	case o.hides(text):
		return hidden
	}
	return text
}

// shownURL is built anew of what is known to be no secret: parameters may have passwords, too.
func shownURL(text string) string {
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return hidden
	}
	user := config.User
	if config.Password != "" {
		user += ":" + hidden
	}
	hosts := []string{fmt.Sprintf("%s:%d", config.Host, config.Port)}
	for _, other := range config.Fallbacks {
		if host := fmt.Sprintf("%s:%d", other.Host, other.Port); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return "postgres://" + user + "@" + strings.Join(hosts, ",") + "/" + config.Database
}
