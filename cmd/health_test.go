package cmd

import (
	"testing"
)

func TestHealthOfNoNode(t *testing.T) {
	t.Parallel()
	run(t, nil, "health").want(t, exitUsage, "health needs --http-addr (TASKTABLE_HTTP_ADDR)")
	silent := listen(t) // it takes the connection, and never answers
	run(t, nil, "health", "--http-addr", silent.Addr().String()).want(t, exitFailed, "the node does not answer")
}
