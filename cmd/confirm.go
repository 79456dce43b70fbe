package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// confirmation is asked for by what touches many, or cannot be undone.
type confirmation struct{ yes bool }

func (c *confirmation) option() option {
	return option{flag: "yes", set: toggle(&c.yes), usage: "does it without asking; without a terminal there is nobody to ask"}
}

// errDeclined ends with exit code 1.
var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks on the terminal whether to go on with what is said, as "cancels 12 tasks". Without --yes and without a terminal
// it is wrong usage, exit code 2: a script must say that it means it. Hold no transaction meanwhile: people go to lunch.
func (c *confirmation) confirm(ctx context.Context, p *program, does string) error {
	if c.yes {
		return nil
	}
	if !isTerminal(ctx, p.stdin) {
		return usage("this %s: confirm it by --yes", does)
	}
	fmt.Fprintf(p.stderr, "This %s. Go on? [y/N] ", does)
	answers := make(chan string, 1)
	go func() { // a read cannot be broken off
		line, _ := bufio.NewReader(p.stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return ctx.Err()
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	}
}
