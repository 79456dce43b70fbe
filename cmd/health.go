package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled"
)

const healthHelp = `Asks the node at --probe-addr, or else at --http-addr, for /readyz, and prints the reasons why it is
not ready. It is the health check of a container whose image has this program alone. A node that does not answer within
2 seconds counts as not ready.

The address is the one that serve has. Without a host, or with 0.0.0.0 or [::], the command asks this machine.`

const (
	healthWithin   = 2 * time.Second
	maxHealthBytes = 64 << 10
)

// healthCommand asks a node whether it is ready. It needs no database.
func (p *program) healthCommand() *cobra.Command {
	var address, probes string
	return p.Bind(&cobra.Command{
		Use:     "health",
		Short:   "Asks the node of this container whether it is ready",
		Long:    healthHelp,
		Example: "  tasktable health --http-addr :8080",
	}, []options.Option{
		{Flag: "http-addr", Variable: "TASKTABLE_HTTP_ADDR", Kind: "address",
			Set: listenAddress(&address), Usage: "where the node answers, as serve has it"},
		{Flag: "probe-addr", Variable: "TASKTABLE_PROBE_ADDR", Kind: "address",
			Set: listenAddress(&probes), Usage: "where the node answers probes, if serve has it (default --http-addr)"},
	}, func(command *cobra.Command) error {
		if address = cmp.Or(probes, address); address == "" {
			return options.Usage("health needs --http-addr (TASKTABLE_HTTP_ADDR) or --probe-addr " +
				"(TASKTABLE_PROBE_ADDR): the address that serve has")
		}
		return p.askHealth(command.Context(), reachable(address))
	})
}

func (p *program) askHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	// The proxy that the environment names is for other hosts.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the node does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxHealthBytes))
	if err != nil {
		return fmt.Errorf("the node's answer breaks off: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		_, err := fmt.Fprintln(p.stdout, "ready")
		return err
	}
	var ready scheduled.Health
	if err := json.Unmarshal(body, &ready); err != nil || len(ready.Checks) == 0 {
		return fmt.Errorf("%s answers with status %d, and not as a node does", address, answer.StatusCode)
	}
	var reasons []error
	for _, check := range ready.Checks {
		if !check.OK {
			reasons = append(reasons, fmt.Errorf("%s: %s", check.Name, check.Reason))
		}
	}
	return fmt.Errorf("not ready: %w", errors.Join(reasons...))
}
