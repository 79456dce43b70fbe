package cmd

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// arguments are what a command takes beside its options, such as ids. The zero value is none.
type arguments struct {
	name     string // of one, for messages: "ID"
	least    int
	most     int // 0: none; -1: any number
	set      func(given []string) error
	complete completion
}

// ids takes the ids of tasks, each once.
func ids(into *[]string, least, most int, complete completion) arguments {
	return arguments{name: "ID", least: least, most: most, complete: complete, set: func(given []string) error {
		*into = nil
		for _, id := range given {
			if !slices.Contains(*into, id) {
				*into = append(*into, id)
			}
		}
		return nil
	}}
}

var databaseURLLike = regexp.MustCompile(`(?i)^\s*postgres(ql)?:`)

// check returns a wrong usage, without what was given: it may be a URL with a password.
func (a *arguments) check(command *cobra.Command, given []string) error {
	if a.most == 0 {
		return noArguments(command, given)
	}
	switch count := len(given); {
	case slices.ContainsFunc(given, databaseURLLike.MatchString):
		return usage("%q takes the database's URL by --database-url, or better by DATABASE_URL", command.CommandPath())
	case slices.Contains(given, ""):
		return usage("%q was given an empty %s", command.CommandPath(), a.name)
	case count < a.least:
		return usage("%q needs %s", command.CommandPath(), a.some(a.least))
	case a.most > 0 && count > a.most:
		return usage("%q takes no more than %s", command.CommandPath(), a.some(a.most))
	}
	return nil
}

func (a *arguments) some(count int) string {
	if count == 1 {
		return "one " + a.name
	}
	return strings.Repeat(a.name+" ", count-1) + a.name
}

// completion says what may follow a prefix, for the shell: words, or a word, a tab and what it is. It knows nothing of errors: a
// shell that asks has nowhere to show them.
type completion func(ctx context.Context, prefix string) []string

// words completes from a list.
func words(choices ...string) completion {
	return func(_ context.Context, prefix string) []string {
		var found []string
		for _, choice := range choices {
			if strings.HasPrefix(choice, prefix) {
				found = append(found, choice)
			}
		}
		return found
	}
}

// each completes the last of several that are separated by commas.
func (complete completion) each() completion {
	return func(ctx context.Context, prefix string) []string {
		before := prefix[:strings.LastIndexByte(prefix, ',')+1]
		found := complete(ctx, prefix[len(before):])
		for i := range found {
			found[i] = before + found[i]
		}
		return found
	}
}

// completed is a completion as cobra calls it: once the flags so far are parsed, and with the arguments so far, of which there may be
// at most so many (-1: any number), and each once.
func (p *program) completed(options []option, complete completion, most int) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if complete == nil || most >= 0 && len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		from, _ := p.sources(command.Flags()) // what is wrong is told when the command runs
		_ = resolve(options, from)
		found := slices.DeleteFunc(complete(command.Context(), prefix), func(one string) bool {
			word, _, _ := strings.Cut(one, "\t")
			return slices.Contains(given, word)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
