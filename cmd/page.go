package cmd

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// again is the command line once more, after a place: the next page. What came from variables still does.
func again(command *cobra.Command, place string) string {
	line := []string{command.CommandPath()}
	command.Flags().Visit(func(flag *pflag.Flag) {
		if value, ok := flag.Value.(*rawValue); ok && !value.option.secret && flag.Name != "after" {
			line = append(line, quoted("--"+flag.Name+"="+value.joined()))
		}
	})
	return printable(strings.Join(append(line, quoted("--after="+place)), " "))
}

var needsNoQuotes = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word as a POSIX shell takes it.
func quoted(word string) string {
	if needsNoQuotes.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
