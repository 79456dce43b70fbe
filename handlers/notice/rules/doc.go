// Package rules reads and writes the rules and the recipients of notices. Package notice sends the notices.
//
//	all := rules.New(rules.Config{})
//	_, err := all.SetRecipient(ctx, pool, rules.Recipient{Name: "ann", Email: "ann@example.org"})
//	_, err = all.Set(ctx, pool, rules.Rule{
//		Name: "dead", Events: []rules.Event{rules.Failed, rules.Expired}, Recipients: []string{"ann"},
//	})
package rules
