package main

import (
	"context"
	"time"
)

var herdBench = Bench{
	Name: "herd", Short: "How soon all tasks of one instant start", Default: 10000,
	Long: `All tasks are due at the same instant, and are scheduled 5 seconds before it. Their handler does nothing. One
node with the default settings runs them. A delay is the start minus the due time, by the clock of the database.`,
	Verified: verified, measure: measureHerd,
}

func measureHerd(ctx context.Context, config Config, result *Result) error {
	var firsts, middles, lasts []float64
	for round := range config.Rounds {
		err := withNode(ctx, config, func(d *database, n *node) error {
			const due = "date_trunc('milliseconds', now()) + interval '5 seconds'"
			if err := n.work(ctx, d, "herd", config.Tasks, due, time.Minute); err != nil {
				return err
			}
			delays, err := d.delays(ctx, "herd")
			if err != nil {
				return err
			}
			first, last := delays[0], delays[len(delays)-1]
			firsts, middles, lasts = append(firsts, first), append(middles, quantile(delays, 0.5)), append(lasts, last)
			config.Say("round %d of %d: from %.1f to %.1f ms after the instant", round+1, config.Rounds, first, last)
			return nil
		})
		if err != nil {
			return err
		}
	}
	result.add("first_ms", median(firsts), "ms from the instant to the first start")
	result.add("p50_ms", median(middles), "ms to the median start")
	result.add("last_ms", median(lasts), "ms to the last start")
	return nil
}
