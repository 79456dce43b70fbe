// Package notice is the variant NOTICE: it tells people what happened to tasks, by e-mail, webhook, Slack, Teams,
// Discord or ntfy. README.md says how to use it.
//
//	sent, err := notice.Variants(notice.Config{
//		DB:      pool,
//		Targets: map[string]notice.Target{"ops": {Kind: notice.KindSlack, URL: os.Getenv("SLACK_URL")}},
//	})
//	registry, err := handlers.NewRegistry(sent...)
//
// Package rules writes the rules and the recipients. The database schedules a notice in the transaction that settles
// its cause, by the trigger "notice" of the history.
package notice
