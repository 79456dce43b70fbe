package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/prove"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestExitCodes(t *testing.T) {
	running := t.Context()
	signalled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{running, nil, 0},
		{signalled, nil, 0},
		{running, errors.New("broken"), 1},
		{signalled, errors.New("broken"), 1},
		{running, context.Canceled, 1},
		{running, options.Usage("wrong"), 2},
		{running, fmt.Errorf("schema: %w", store.ErrInvalid), 2},
		{running, fmt.Errorf("serve: %w", migrations.ErrUnmigrated), 3},
		{running, fmt.Errorf("serve: %w", &unreachableError{errors.New("no answer")}), 4},
		{running, fmt.Errorf("migrate: %w", &pgconn.ConnectError{}), 4},
		{running, fmt.Errorf("verify: %w", prove.ErrBroken), 6},
		{signalled, &unreachableError{fmt.Errorf("connect: %w", context.Canceled)}, 130},
		{running, errors.Join(&unreachableError{errors.New("no answer")}, errors.New("stopping failed")), 4},
	} {
		if got := exitCode(test.ctx, test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}

func TestHelpDocumentsTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}} {
		got := run(t, nil, args...)
		got.want(t, exitOK)
		if !strings.Contains(got.stdout, exitCodes) || got.stderr != "" {
			t.Errorf("%v: stdout:\n%s\nstderr:\n%s", args, got.stdout, got.stderr)
		}
	}
}

// The database says what a role may not do, and not what helps.
func TestMissingRightsNameWhatGivesThem(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, `GRANT USAGE ON SCHEMA tasktable TO pg_monitor`)
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	variables := []string{"DATABASE_URL=" + url + join + "options=-c%20role%3Dpg_monitor"}
	for _, args := range [][]string{{"why", "one"}, {"tasks", "list"}, {"nodes"}, {"stats"}, {"queues", "list"},
		{"serve"}} {
		run(t, variables, args...).want(t, exitFailed, "permission denied",
			"\nThe database role lacks this right: see tasktable migrate roles --help, and tasktable doctor "+
				"--check permissions.\n")
	}
}
