package scheduled

import (
	"context"
)

// Node is one running engine.
type Node struct {
	config Config
}

// New checks the configuration. It connects to nothing yet.
func New(config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Node{config: config}, nil
}

// Run works until ctx is done, then stops gracefully within the ShutdownTimeout and returns nil.
func (n *Node) Run(ctx context.Context) error { <-ctx.Done(); return nil }
