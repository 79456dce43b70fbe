package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/store"
)

// Notices have a queue of their own, so that they are still sent when handlers hang in all slots of the others.
const (
	noticeQueue = "notices"
	noticeSlots = 2
)

// noticeSettings say whether the node sends notices, and where. With a target it does.
type noticeSettings struct {
	on      bool
	queue   string
	targets map[string]notice.Target
	tokens  map[string]string
	board   string
	pool    laterPool
}

func (s *noticeSettings) options() []options.Option {
	return []options.Option{
		{Flag: "notices", Variable: "TASKTABLE_NOTICES", Set: options.Bool(&s.on),
			Usage: "also sends notices (tasktable notices), by e-mail if there is a mail server; --notice-target " +
				"implies it"},
		{Flag: "notice-queue", Variable: "TASKTABLE_NOTICE_QUEUE", Kind: "name", Set: queueName(&s.queue),
			Default: noticeQueue,
			Usage: fmt.Sprintf("the queue that notices run in. All nodes that send notices need the same. Such a node "+
				"also works the queue %s, with %d slots, unless --queue gives that queue other slots. Any other queue "+
				"must be among its --queue", noticeQueue, noticeSlots)},
		{Flag: "notice-target", Variable: "TASKTABLE_NOTICE_TARGETS", Kind: "name=kind:URL", Repeatable: true,
			Secret: true,
			Set:    noticeTargets(&s.targets),
			Usage: "where notices are sent, by the name that recipients have; kind is " + notice.KindNames() +
				". May be repeated, or separated by commas or lines. Better in the variable, because such a URL is a " +
				"secret. A webhook is signed if --webhook-secret has a secret of the same name"},
		{Flag: "notice-token", Variable: "TASKTABLE_NOTICE_TOKENS", Kind: "name=token", Repeatable: true,
			Secret: true, Set: noticeTokens(&s.tokens),
			Usage: "a token that is sent to the target of this name as Authorization: Bearer"},
		{Flag: "dashboard-url", Variable: "TASKTABLE_DASHBOARD_URL", Kind: "url",
			Set: options.Checked(&s.board, notice.CheckDashboardURL, "must be http:// or https://, a host, and "+
				"perhaps a port and a path without a slash at its end, of at most 200 bytes"),
			Usage: "the address at which people reach the dashboard, such as https://tasks.example.org; notices link " +
				"to the pages of tasks there (default none: they name the command that tells why)"},
	}
}

// noticeItems splits name=value, one or several separated by commas or white space.
func noticeItems(given string, each func(name, value string) error) error {
	split := func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }
	for _, item := range strings.FieldsFunc(given, split) {
		name, value, _ := strings.Cut(item, "=")
		if err := each(name, value); err != nil {
			return err
		}
	}
	return nil
}

func noticeTargets(into *map[string]notice.Target) func(string) error {
	return func(given string) error {
		found := map[string]notice.Target{}
		err := noticeItems(given, func(name, value string) error {
			kind, url, _ := strings.Cut(value, ":")
			found[name] = notice.Target{Kind: notice.Kind(kind), URL: url}
			return nil
		})
		if err == nil {
			_, err = notice.New(notice.Config{DB: new(laterPool), Targets: found})
		}
		if err != nil {
			return fmt.Errorf("must be name=kind:URL, or several separated by commas or lines: the name of 1 to 63 "+
				"letters, digits or _.-, the kind %s, the URL with http:// or https://", notice.KindNames())
		}
		*into = found
		return nil
	}
}

func noticeTokens(into *map[string]string) func(string) error {
	return func(given string) error {
		found := map[string]string{}
		if err := noticeItems(given, func(name, value string) error {
			if name == "" || value == "" {
				return errors.New("empty")
			}
			found[name] = value
			return nil
		}); err != nil {
			return errors.New("must be name=token, or several separated by commas or lines")
		}
		*into = found
		return nil
	}
}

// variants are the handlers of notices. There are none if the node sends none.
func (s *noticeSettings) variants(requests webhook.Config, mail *email.Config, schema store.Schema, environment string,
) ([]handlers.Part, error) {
	for name := range s.tokens {
		if _, known := s.targets[name]; !known {
			return nil, options.Usage("--notice-token (TASKTABLE_NOTICE_TOKENS) has a name that no --notice-target " +
				"(TASKTABLE_NOTICE_TARGETS) has")
		}
	}
	if len(s.targets) == 0 && !s.on {
		return nil, nil
	}
	config := notice.Config{DB: &s.pool, Schema: schema, Webhook: requests, Email: mail,
		Targets: map[string]notice.Target{}, Environment: environment, DashboardURL: s.board}
	for name, target := range s.targets {
		target.Token = s.tokens[name]
		if _, known := requests.Secrets[name]; known && target.Kind == notice.KindWebhook {
			target.SignWith = name
		}
		config.Targets[name] = target
	}
	parts, err := notice.Variants(config)
	if err != nil {
		return nil, options.Usage("the options with notice in their names: %w", err)
	}
	return parts, nil
}

// targetNames are the names of the targets, or nil if this program sends no notices and so does not know them.
func (s *noticeSettings) targetNames() []string {
	if len(s.targets) == 0 && !s.on {
		return nil
	}
	return append([]string{}, slices.Sorted(maps.Keys(s.targets))...)
}

// queues are the queues of a node that sends notices. Any other queue than their own is not added, because a node
// that was told not to work it must not take its other tasks.
func (s *noticeSettings) queues(given map[string]int) map[string]int {
	queues := maps.Clone(given)
	if _, has := queues[noticeQueue]; s.queue == noticeQueue && !has {
		queues[noticeQueue] = noticeSlots
	}
	return queues
}

// recurring are the recurring tasks of notices.
func (s *noticeSettings) recurring() []store.Task {
	tasks := notice.Recurring()
	for i := range tasks {
		tasks[i].Queue = s.queue
	}
	return tasks
}

// laterPool is a database that is opened after the handlers are made, so that a wrong option does not open one. No
// handler runs before it is open.
type laterPool struct{ opened atomic.Pointer[pgxpool.Pool] }

// Query runs on the pool.
func (p *laterPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	pool := p.opened.Load()
	if pool == nil {
		return nil, errors.New("the database is not open yet")
	}
	return pool.Query(ctx, sql, args...)
}
