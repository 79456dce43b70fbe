package options

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestTogglesAreOnOrOff(t *testing.T) {
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		want      bool
	}{
		{"default", nil, nil, false},
		{"flag", []string{"--on"}, nil, true},
		{"flag off", []string{"--on=false"}, []string{"ON=true"}, false},
		{"variable", nil, []string{"ON=1"}, true},
		{"variable off", nil, []string{"ON=false"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var on bool
			resolveArgs(t, []Option{{Flag: "on", Variable: "ON", Set: Bool(&on)}}, test.variables, test.args)
			if on != test.want {
				t.Errorf("got %t, want %t", on, test.want)
			}
		})
	}
}

// resolveArgs makes a command of the options and runs it.
func resolveArgs(t *testing.T, options []Option, variables, args []string) {
	t.Helper()
	c := NewCatalog(variables)
	ran := false
	command := c.Bind(&cobra.Command{Use: "test"}, options, func(*cobra.Command) error { ran = true; return nil })
	command.SetArgs(append([]string{}, args...))
	if err := command.Execute(); err != nil || !ran {
		t.Fatalf("ran: %t, error: %v", ran, err)
	}
}
