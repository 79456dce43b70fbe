package storetest

import (
	"context"
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The table changes what is global, so it is not parallel.
func TestChoose(t *testing.T) {
	container := &url.URL{Scheme: "postgres", Host: "container"}
	starts := func(base *url.URL, err error) *starter {
		start := func(context.Context) (*url.URL, func() error, error) { return base, nil, err }
		return &start
	}
	for name, test := range map[string]struct {
		given string
		start *starter
		host  string // of the server, where one is chosen
		err   string
	}{
		"a URL":                   {"postgres://given/x", starts(container, nil), "given", ""},
		"no URL":                  {"host=given", nil, "", "must be a URL"},
		"a container":             {"container", starts(container, nil), "container", ""},
		"a container, no daemon":  {"container", starts(nil, nil), "", "no Docker daemon answers"},
		"a container that fails":  {"container", starts(nil, errors.New("no such image")), "", "no such image"},
		"a container, not linked": {"container", nil, "", "do not import store/storetest/container"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(URLVariable, test.given)
			before := registered.Swap(test.start)
			defer registered.Store(before)
			base, _, err := choose(t.Context())
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
			case err != nil || base.Host != test.host:
				t.Errorf("got %v (%v), want host %s", base, err, test.host)
			}
		})
	}
}

func TestAnInstalledPostgresIsChosenBeforeAContainer(t *testing.T) {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
		if _, err := exec.LookPath("initdb"); err != nil {
			t.Skip("no Postgres is installed")
		}
	}
	t.Setenv(URLVariable, "")
	asked := false
	start := func(context.Context) (*url.URL, func() error, error) {
		asked = true
		return nil, nil, nil
	}
	before := registered.Swap(&start)
	defer registered.Store(before)
	base, stop, err := choose(t.Context())
	ok(t, err)
	if asked || !strings.HasPrefix(base.Host, "127.0.0.1:") {
		t.Errorf("the server is %s, and a container was asked for: %t", base.Host, asked)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
