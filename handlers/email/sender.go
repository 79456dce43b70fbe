package email

import (
	"context"
	"fmt"
	"net/mail"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email/contract"
)

// Sender delivers tasks of type SEND_EMAIL. It holds no connection. It is safe for concurrent use.
type Sender struct {
	config Config
	from   *mail.Address
}

// New checks the configuration and makes a Sender. It opens no connection. The error wraps store.ErrInvalid and names
// each bad field.
func New(config Config) (*Sender, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	from, err := parseFrom(config.From)
	if err != nil {
		return nil, fmt.Errorf("email.Config: From %w", err)
	}
	return &Sender{config: config, from: from}, nil
}

// Variant makes a Sender and returns its Send as an argument of handlers.NewRegistry. It returns the errors of New.
func Variant(config Config, options ...handlers.Option) (handlers.Part, error) {
	sender, err := New(config)
	if err != nil {
		return nil, err
	}
	return handlers.Handle(sender.Send, options...), nil
}

// Send delivers one e-mail over a connection of its own. It returns nil once the server has accepted the mail, even
// if the connection breaks afterwards. The documentation of the package says which errors are permanent.
func (s *Sender) Send(ctx context.Context, t *handlers.Task[contract.SendEmail]) error {
	message, err := compose(s.from, t.Payload, t.IdempotencyKey())
	if err != nil {
		return handlers.Permanent(fmt.Errorf("send email: %w", err))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, timeoutError{s.config.Timeout})
	defer cancel()
	if err := s.deliver(ctx, message); err != nil {
		if ctx.Err() != nil { // the end of ctx closed the connection, so give the reason
			return fmt.Errorf("send email: %w (%w)", context.Cause(ctx), err)
		}
		return fmt.Errorf("send email: %w", err)
	}
	return nil
}

type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("the server took longer than %s", e.after) }
func (e timeoutError) Timeout() bool { return true }
