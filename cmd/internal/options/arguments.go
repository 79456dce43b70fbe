package options

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Arguments are those that a command takes beside its options, such as ids. With the zero value it takes none.
type Arguments struct {
	Name     string // of one argument, for messages: "ID"
	MinCount int
	MaxCount int // 0: none; -1: any number
	Set      func(given []string) error
	Complete Completion
}

// IDs takes the ids of tasks, and drops repeated ones.
func IDs(into *[]string, minCount, maxCount int, complete Completion) Arguments {
	set := func(given []string) error {
		*into = nil
		for _, id := range given {
			if !slices.Contains(*into, id) {
				*into = append(*into, id)
			}
		}
		return nil
	}
	return Arguments{Name: "ID", MinCount: minCount, MaxCount: maxCount, Complete: complete, Set: set}
}

// One takes one argument.
func One(name string, into *string, complete Completion) Arguments {
	return Arguments{Name: name, MinCount: 1, MaxCount: 1, Complete: complete,
		Set: func(given []string) error { *into = given[0]; return nil }}
}

var databaseURLLike = regexp.MustCompile(`(?i)^\s*postgres(ql)?:`)

// check returns a usageError. It does not quote the arguments, because one may be a URL with a password.
func (a *Arguments) check(command *cobra.Command, given []string) error {
	if a.MaxCount == 0 {
		return NoArguments(command, given)
	}
	switch count := len(given); {
	case slices.ContainsFunc(given, databaseURLLike.MatchString):
		return Usage("%q takes the database's URL by --database-url, or better by DATABASE_URL", command.CommandPath())
	case slices.Contains(given, ""):
		return Usage("%q was given an empty %s", command.CommandPath(), a.Name)
	case count < a.MinCount:
		return Usage("%q needs %s", command.CommandPath(), a.some(a.MinCount))
	case a.MaxCount > 0 && count > a.MaxCount:
		return Usage("%q takes no more than %s", command.CommandPath(), a.some(a.MaxCount))
	}
	return nil
}

func (a *Arguments) some(count int) string {
	if count == 1 {
		return "one " + a.Name
	}
	return strings.Repeat(a.Name+" ", count-1) + a.Name
}

// Completion returns the words that begin with a prefix, for the shell. A tab and a description may follow each word.
// It returns no error, because a shell that completes a word has nowhere to show one.
type Completion func(ctx context.Context, prefix string) []string

// Words completes from a list.
func Words[T ~string](choices ...T) Completion {
	return func(_ context.Context, prefix string) (found []string) {
		for _, choice := range choices {
			if strings.HasPrefix(string(choice), prefix) {
				found = append(found, string(choice))
			}
		}
		return found
	}
}

// Each completes the last of several words that are separated by commas.
func (complete Completion) Each() Completion {
	return func(ctx context.Context, prefix string) []string {
		before := prefix[:strings.LastIndexByte(prefix, ',')+1]
		found := complete(ctx, prefix[len(before):])
		for i := range found {
			found[i] = before + found[i]
		}
		return found
	}
}
