//go:build unix

package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
)

// Wherever the end of the output begins, it has no part of a secret.
func TestOutputHasNoSecrets(t *testing.T) {
	t.Parallel()
	const secret, longer = "s3cr3t-Value", "s3cr3t-Value-and-more"
	files := map[string]string{"TOKEN": written(t, secret), "LONGER": written(t, longer+"\n")}
	for keep := 1; keep <= 60; keep++ {
		c := shell(`printf 'one %s two %s%s three %s' "$TOKEN" "$LONGER" "$TOKEN" "$LONGER"; exit $1`)
		c.Secrets, c.Output, c.ExtraArgs = files, keep, command.ExtraArgs{Max: 1, Pattern: "[01]"}
		got, err := run(t.Context(), c, contract.Exec{Args: []string{"0"}})
		if err != nil {
			t.Fatal(err)
		}
		_, failed := run(t.Context(), c, contract.Exec{Args: []string{"1"}})
		for _, text := range []string{got.Stdout, fmt.Sprint(failed)} {
			for from := range len(longer) - 4 {
				if strings.Contains(text, longer[from:from+4]) {
					t.Errorf("the last %d bytes: %q", keep, text)
				}
			}
		}
	}
	c := shell(`echo "$TOKEN" "$LONGER"`)
	c.Secrets = files
	if got, err := run(t.Context(), c, contract.Exec{}); err != nil || got.Stdout != "[TOKEN] [LONGER]\n" {
		t.Errorf("got %q, %v", got.Stdout, err)
	}
	c.Output = -1
	if got, err := run(t.Context(), c, contract.Exec{}); err != nil || got.Stdout != "" || got.StdoutBytes != 35 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A character is not cut in two.
func TestTheEndBeginsWithACharacter(t *testing.T) {
	t.Parallel()
	for keep := 1; keep <= 9; keep++ {
		c := shell("printf '€€€'")
		c.Output = keep
		got, err := run(t.Context(), c, contract.Exec{})
		if want := strings.Repeat("€", keep/3); err != nil || got.Stdout != want {
			t.Errorf("%d bytes: %q, %v", keep, got.Stdout, err)
		}
	}
}
