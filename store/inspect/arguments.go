package inspect

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// arguments are those of a statement, by their names. In the statement each stands as @name. All are texts, because
// every driver can bind text.
type arguments map[string]string

var argument = regexp.MustCompile(`@[a-z_]+`)

// bind returns the statement with the conditions of the filter and the numbers of the arguments that it has, and these
// arguments.
func (a arguments) bind(statement string) (sql string, args []any) {
	numbers := map[string]int{}
	sql = strings.Replace(statement, filterSQL, a.conditions(), 1)
	sql = argument.ReplaceAllStringFunc(sql, func(found string) string {
		name := found[1:]
		if numbers[name] == 0 {
			args = append(args, a[name])
			numbers[name] = len(args)
		}
		return fmt.Sprintf("$%d::text", numbers[name])
	})
	return sql, args
}

// with returns the arguments with others added, which are names and values by turns.
func (a arguments) with(pairs ...string) arguments {
	all := maps.Clone(a)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}
