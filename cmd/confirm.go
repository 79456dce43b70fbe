package cmd

import (
	"context"
	"errors"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
)

// confirmation is the question before a command changes many tasks, or does something that cannot be undone.
type confirmation struct{ yes bool }

func (c *confirmation) option() options.Option {
	return options.Option{Flag: "yes", Set: options.Bool(&c.yes),
		Usage: "does not ask; required without a terminal, because there is nobody to ask"}
}

// errDeclined ends with exit code 1.
var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks on the terminal whether to go on. does completes the sentence "This …", for example "cancels 12
// tasks". Without --yes and without a terminal it returns a wrong usage (exit code 2), because a script must say that
// it means it. Hold no transaction while it asks, because people go to lunch.
func (c *confirmation) confirm(ctx context.Context, p *program, does string) error {
	if c.yes {
		return nil
	}
	if !term.IsTerminal(ctx, p.stdin) {
		return options.Usage("this %s: confirm it by --yes", does)
	}
	agreed, err := term.Ask(ctx, p.stdin, p.stderr, "This "+does+". Go on?")
	if err == nil && !agreed {
		return errDeclined
	}
	return err
}
