package email

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// login proves the password to the server, with a mechanism that both sides support. It serves one connection.
type login struct {
	config Config
	chosen AuthMechanism
	auth   smtp.Auth
}

// Start implements smtp.Auth. The client calls it when the server's mechanisms are known.
func (l *login) Start(server *smtp.ServerInfo) (proto string, toServer []byte, err error) {
	mechanism, err := l.choose(server)
	if err != nil {
		return "", nil, err
	}
	user, password := l.config.Username, l.config.Password
	// false means that PLAIN and LOGIN, which show the password, refuse to talk without TLS to any host but localhost.
	auth := map[AuthMechanism]smtp.Auth{
		AuthPlain:       smtp.PlainAuth("", user, password, server.Name, false),
		AuthLogin:       smtp.LoginAuth(user, password, server.Name, false),
		AuthCRAMMD5:     smtp.CRAMMD5Auth(user, password),
		AuthSCRAMSHA1:   smtp.ScramSHA1Auth(user, password),
		AuthSCRAMSHA256: smtp.ScramSHA256Auth(user, password),
	}[mechanism]
	proto, toServer, err = auth.Start(server)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", mechanism, err)
	}
	l.chosen, l.auth = mechanism, auth // from here on the server may know the password
	return proto, toServer, nil
}

// Next implements smtp.Auth. It answers the server's challenge.
func (l *login) Next(fromServer []byte, more bool) ([]byte, error) {
	return l.auth.Next(fromServer, more)
}

func (l *login) choose(server *smtp.ServerInfo) (AuthMechanism, error) {
	order := []AuthMechanism{AuthSCRAMSHA256, AuthSCRAMSHA1, AuthPlain, AuthLogin, AuthCRAMMD5}
	if !server.TLS {
		order = []AuthMechanism{AuthSCRAMSHA256, AuthSCRAMSHA1, AuthCRAMMD5, AuthPlain, AuthLogin}
	}
	if l.config.Auth != AuthAuto {
		order = []AuthMechanism{l.config.Auth}
	}
	for _, mechanism := range order {
		offered := func(name string) bool { return strings.EqualFold(name, string(mechanism)) }
		if slices.ContainsFunc(server.Auth, offered) {
			return mechanism, nil
		}
	}
	return "", fmt.Errorf("the server offers none of %v, but %v", order, server.Auth)
}

// enhancedCode matches a status code of RFC 3463. It says more than the SMTP code: 5.7.8 is a wrong password, 5.7.9 a
// weak mechanism.
var enhancedCode = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// describe leaves out any text that the server sent after it saw the password, because that text may quote the
// password.
func (l *login) describe(err error) error {
	if l.auth == nil {
		return err
	}
	doing := fmt.Sprintf("log in as %q with %s", l.config.Username, l.chosen)
	var answer *textproto.Error
	if errors.As(err, &answer) {
		code := strings.TrimSpace(fmt.Sprintf("%d %s", answer.Code, enhancedCode.FindString(answer.Msg)))
		return fmt.Errorf("%s: the server answered %s", doing, code)
	}
	var network net.Error
	if errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: the server's answer makes no sense", doing)
}
