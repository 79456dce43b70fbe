package cmd

import (
	"io"
	"os/user"
	"testing"

	"github.com/spf13/cobra"
)

// In the environment of a node the service is the node's: who looks after tasks there is somebody else.
func TestWhoTheHistoryNames(t *testing.T) {
	t.Parallel()
	one, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	person := "tasktable:" + one.Username
	for _, c := range []struct {
		name        string
		environment []string
		args        []string
		want        string
	}{
		{"nothing said", nil, nil, person},
		{"in a pod", []string{"TASKTABLE_SERVICE=events-api"}, nil, person},
		{"variable", []string{"TASKTABLE_BY=deploy", "TASKTABLE_SERVICE=events-api"}, nil, "deploy"},
		{"flag", []string{"TASKTABLE_BY=deploy"}, []string{"--by=ann"}, "ann"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(c.environment, io.Discard, io.Discard)
			of := p.client()
			var got string
			command := p.Bind(&cobra.Command{Use: "x"}, of.options(),
				func(*cobra.Command) error { got = of.author(); return nil })
			command.SetArgs(append([]string{}, c.args...)) // nil is those of the process
			if err := command.ExecuteContext(t.Context()); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
