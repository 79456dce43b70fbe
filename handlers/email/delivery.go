package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/tasktable/tasktable/handlers"
)

// quitTimeout is how long the server may take to answer QUIT. The mail is delivered by then, so the answer does not
// matter.
const quitTimeout = 2 * time.Second

// deliver makes a connection and sends the message over it.
func (s *Sender) deliver(ctx context.Context, message *gomail.Msg) error {
	line := &line{config: s.config, ended: ctx}
	defer line.close()
	client, err := s.greet(ctx, line.dial)
	if err != nil {
		return err
	}
	if err := transact(client, message); err != nil {
		return err // no Quit here: it would end the content with a dot, and the server would deliver half a mail
	}
	_ = client.UpdateDeadline(quitTimeout)
	_ = client.Quit()
	return nil
}

// line is the connection of one delivery. line closes it itself, because go-mail does not close it if the greeting or
// the login fails. After the dial go-mail looks at deadlines only, so line also closes the connection when the
// context ends.
type line struct {
	config  Config
	ended   context.Context //nolint:containedctx // a line lives for one call
	raw     net.Conn
	unwatch func() bool
}

func (l *line) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(l.config.Host, strconv.Itoa(l.config.Port)))
	if err != nil {
		return nil, err
	}
	l.raw = raw
	l.unwatch = context.AfterFunc(l.ended, func() { _ = raw.Close() })
	if l.config.TLS != TLSImplicit {
		return raw, nil
	}
	encrypted := tls.Client(raw, l.config.TLSConfig)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return encrypted, nil
}

func (l *line) close() {
	if l.raw != nil {
		l.unwatch()
		_ = l.raw.Close()
	}
}

// greet opens the connection, encrypts it and logs in.
func (s *Sender) greet(ctx context.Context, dial gomail.DialContextFunc) (*smtp.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.config.Port), gomail.WithTimeout(s.config.Timeout), gomail.WithHELO(s.config.Hello),
		gomail.WithTLSConfig(s.config.TLSConfig), gomail.WithDialContextFunc(dial),
	}
	switch s.config.TLS {
	case TLSImplicit:
		options = append(options, gomail.WithSSL())
	case TLSNone:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	login := &login{config: s.config}
	if s.config.Username != "" {
		options = append(options, gomail.WithSMTPAuthCustom(login))
	}
	client, err := gomail.NewClient(s.config.Host, options...)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection: %w", err)
	}
	connected, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		address := net.JoinHostPort(s.config.Host, strconv.Itoa(s.config.Port))
		return nil, fmt.Errorf("connect to %s: %w", address, login.describe(err))
	}
	return connected, nil
}

// transact sends the message over a connection that is ready. It does not use go-mail's Send. If the connection
// breaks after the server accepted the mail, Send returns an error, and the retry would send the mail twice.
func transact(client *smtp.Client, message *gomail.Msg) error {
	from, err := message.GetSender(false)
	if err != nil {
		return fmt.Errorf("read the sender: %w", err)
	}
	recipients, err := message.GetRecipients()
	if err != nil {
		return fmt.Errorf("read the recipient: %w", err)
	}
	isWide := func(to string) bool { return !isASCII(to) }
	if wide, _ := client.Extension("SMTPUTF8"); !wide && slices.ContainsFunc(recipients, isWide) {
		return handlers.Permanent(errors.New("the server takes ASCII addresses only (it has no SMTPUTF8)"))
	}
	if err := client.Mail(from); err != nil {
		return refusal("sender", recipients, err)
	}
	for _, recipient := range recipients {
		if err := client.Rcpt(recipient); err != nil {
			return refusal("recipient", recipients, err)
		}
	}
	content, err := client.Data()
	if err != nil {
		return refusal("start of the content", recipients, err)
	}
	if _, err = message.WriteTo(content); err == nil {
		err = content.Close()
	}
	if err != nil {
		return refusal("content", recipients, err)
	}
	return nil
}

// loginCodes are the codes with which a server refuses the client and not the mail: no login, a wrong or a weak
// login, no encryption.
var loginCodes = []int{530, 534, 535, 538}

// refusal makes a server's 5xx answer permanent, because the server would refuse this mail again. Three kinds of
// errors are worth another attempt: errors on the way to the server, the server's 4xx answers, and refusals of the
// account (loginCodes).
func refusal(of string, recipients []string, err error) error {
	var answer *textproto.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("send the %s: %w", of, err)
	}
	answer = &textproto.Error{Code: answer.Code, Msg: withoutRecipients(answer.Msg, recipients)}
	err = fmt.Errorf("the server refused the %s: %w", of, answer)
	if answer.Code >= 500 && answer.Code <= 599 && !slices.Contains(loginCodes, answer.Code) {
		return handlers.Permanent(err)
	}
	return err
}

// minLocalPart is the least length, in bytes, of a local part that is replaced where it stands alone. A shorter local
// part also occurs in other places of an answer. For example, "1" occurs in the status code 5.1.1.
const minLocalPart = 3

// withoutRecipients replaces the recipients' addresses in a server's answer, because many servers quote them, or
// quote the local part alone. The error goes to the task's history and to logs, and no content of the payload may get
// there.
func withoutRecipients(answer string, recipients []string) string {
	for _, recipient := range recipients {
		recipient = strings.Trim(recipient, "<>") // go-mail gives it in angle brackets
		pattern := `(?i)` + regexp.QuoteMeta(recipient)
		if local := recipient[:max(strings.LastIndex(recipient, "@"), 0)]; len(local) >= minLocalPart {
			pattern += `|\b` + regexp.QuoteMeta(local) + `\b`
		}
		answer = regexp.MustCompile(pattern).ReplaceAllLiteralString(answer, "[recipient]")
	}
	return answer
}
