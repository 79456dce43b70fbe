package notice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
	emailcontract "github.com/tasktable/tasktable/handlers/email/contract"
	"github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/handlers/webhook"
	webhookcontract "github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
)

// Notices sends tasks of type NOTICE. It is safe for concurrent use.
type Notices struct {
	db       store.DB
	schema   store.Schema
	targets  map[string]Target
	requests *webhook.Sender
	mail     *email.Sender // nil: this node has no mail server

	environment, dashboard string
}

// String returns no field, because some have secrets. The verbs %v and %+v use it.
func (n *Notices) String() string { return "notice.Notices" }

// GoString returns the same for %#v.
func (n *Notices) GoString() string { return n.String() }

// CloseIdleConnections closes the connections that are kept for later requests.
func (n *Notices) CloseIdleConnections() { n.requests.CloseIdleConnections() }

// Send sends one notice. It reads the causes when it sends them, so that all of a window are one message. The
// documentation of the packages email and webhook says which errors are permanent.
func (n *Notices) Send(ctx context.Context, t *handlers.Task[contract.Notice]) error {
	if err := n.send(ctx, t); err != nil {
		return fmt.Errorf("send notice: %w", err)
	}
	return nil
}

func (n *Notices) send(ctx context.Context, t *handlers.Task[contract.Notice]) error {
	to, err := n.addressee(ctx, t)
	if err != nil {
		return err
	}
	if note := to.silent(t.Payload); note != "" {
		t.Note("not sent: %s", note)
		return nil
	}
	m := n.messageTo(t)
	m.Test, m.To = true, t.StartedAt
	if !t.Payload.Test {
		if m, err = n.message(ctx, t, to.Details); err != nil {
			return err
		}
		if m.Total == 0 {
			t.Note("not sent: its causes were erased, or are older than 30 days")
			return nil
		}
	}
	if err := n.deliver(ctx, t.Execution, to, m); err != nil {
		return err
	}
	t.Note("told %s: %s", t.Payload.Recipient, m.summary()) // without ids, because erase does not find it
	return nil
}

const addresseeSQL = `
SELECT r.name IS NOT NULL AS has_rule, coalesce(r.enabled, false) AS enabled, coalesce(r.details, false) AS details,
    p.name IS NOT NULL AS has_recipient, coalesce(p.email, '') AS email, coalesce(p.target, '') AS target
FROM (SELECT) AS one
LEFT JOIN tasktable.notice_rules AS r ON r.name = $1::text
LEFT JOIN tasktable.notice_recipients AS p ON p.name = $2::text`

// addressee is the recipient of a notice, as things are now.
type addressee struct {
	HasRule, Enabled, Details bool
	HasRecipient              bool
	Email, Target             string
}

func (n *Notices) addressee(ctx context.Context, t *handlers.Task[contract.Notice]) (addressee, error) {
	found, err := collect[addressee](ctx, n, "read the recipient", addresseeSQL, t.Payload.Rule, t.Payload.Recipient)
	if err != nil {
		return addressee{}, err
	}
	return found[0], nil
}

// silent returns why nothing is sent, or "".
func (a addressee) silent(payload contract.Notice) string {
	switch {
	case !a.HasRecipient:
		return "there is no such recipient"
	case payload.Test:
		return ""
	case !a.HasRule:
		return "its rule was removed"
	case !a.Enabled:
		return "its rule is disabled"
	}
	return ""
}

const countsSQL = `
SELECT c.event, c.type, count(*) AS count, min(c.at) AS first_at, max(c.at) AS last_at
FROM tasktable.notice_causes AS c WHERE c.notice_id = $1::text
GROUP BY c.event, c.type ORDER BY count(*) DESC, c.event, c.type`

type countRow struct {
	count

	FirstAt, LastAt time.Time
}

// The errors are looked up one by one, so that a join does not read the whole history.
const listedSQL = `
SELECT c.event, c.task_id, c.type, c.at, coalesce(left(CASE
    WHEN c.event NOT IN ('failed', 'expired', 'lost') THEN c.detail
    WHEN $2::text::boolean THEN coalesce(c.detail, (SELECT e.error FROM tasktable.scheduled_task_executions AS e
        WHERE e.fence = c.number AND e.task_id = c.task_id)) END, $3::text::integer), '') AS detail, '' AS url
FROM (SELECT * FROM tasktable.notice_causes AS c WHERE c.notice_id = $1::text
    ORDER BY c.at, c.number LIMIT $4::text::integer) AS c
ORDER BY c.at, c.number`

func (n *Notices) message(ctx context.Context, t *handlers.Task[contract.Notice], details bool) (message, error) {
	m := n.messageTo(t)
	counts, err := collect[countRow](ctx, n, "count the causes", countsSQL, t.ID)
	if err != nil {
		return m, err
	}
	for _, one := range counts {
		m.Total += one.Count
		m.Counts = append(m.Counts, one.count)
		if m.From.IsZero() || one.FirstAt.Before(m.From) {
			m.From = one.FirstAt
		}
		if one.LastAt.After(m.To) {
			m.To = one.LastAt
		}
	}
	m.Listed, err = collect[cause](ctx, n, "read the causes", listedSQL, t.ID, fmt.Sprint(details),
		fmt.Sprint(maxDetail), fmt.Sprint(maxListed))
	for i, one := range m.Listed {
		m.Listed[i].URL = m.taskURL(one.TaskID)
	}
	return m, err
}

// messageTo is a message without causes.
func (n *Notices) messageTo(t *handlers.Task[contract.Notice]) message {
	return message{ID: t.ID, Rule: t.Payload.Rule, Recipient: t.Payload.Recipient, Environment: n.environment,
		Dashboard: n.dashboard}
}

// deliver sends the message by the recipient's channel. The request is not a task of its own, because its failure would
// be a cause of notices.
func (n *Notices) deliver(ctx context.Context, attempt *handlers.Execution, to addressee, m message) error {
	own := *attempt // the result of the request would have the receiver's answer
	if to.Email != "" {
		if n.mail == nil {
			return errors.New("this node has no mail server")
		}
		mail := emailcontract.SendEmail{Email: to.Email, Subject: m.title(), Body: m.text() + "\n"}
		return n.mail.Send(ctx, &handlers.Task[emailcontract.SendEmail]{Execution: &own, Payload: mail})
	}
	target, known := n.targets[to.Target]
	if !known { // not permanent, because the node's configuration can be mended
		return fmt.Errorf("this node has no target %s", to.Target)
	}
	request := formats[target.Kind](m)
	request.URL, request.SignWith = target.URL, target.SignWith
	if target.Token != "" {
		if request.Headers == nil {
			request.Headers = map[string]string{}
		}
		request.Headers["Authorization"] = "Bearer " + target.Token
	}
	return n.requests.Send(ctx, &handlers.Task[webhookcontract.HTTPRequest]{Execution: &own, Payload: request})
}

func collect[T any](ctx context.Context, n *Notices, doing, statement string, args ...any) ([]T, error) {
	rows, err := n.db.Query(ctx, n.schema.SQL(statement), args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return found, nil
}
