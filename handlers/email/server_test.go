package email_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/email"
)

// script says how a server of a test behaves. The zero value takes every mail, without encryption and login.
type script struct {
	startTLS, implicit bool
	utf8               bool
	auth               string // the mechanisms it offers, separated by spaces
	user, password     string // what it expects of them
	// By command: what it answers instead. %s: the line it was sent, decoded where that is possible.
	replies map[string]string
	dropAt  string // the command at which it closes the connection; "." is the end of the content
	stallAt string // the command it never answers
}

type received struct {
	from, to, content string
	encrypted         bool
	user              string
}

// server is a small SMTP server in this process.
type server struct {
	script
	port     int
	roots    *x509.CertPool
	listener net.Listener
	tls      *tls.Config
	stalled  chan struct{} // closed when it has begun not to answer
	quit     chan struct{}
	done     sync.WaitGroup

	mu       sync.Mutex
	conns    int
	commands []string
	mails    []received
}

func serve(t *testing.T, behaviour script) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		script: behaviour, listener: listener, port: listener.Addr().(*net.TCPAddr).Port, stalled: make(chan struct{}),
		quit: make(chan struct{}),
	}
	s.tls, s.roots = certified()
	s.done.Go(s.accept)
	t.Cleanup(func() {
		close(s.quit)
		_ = listener.Close()
		s.done.Wait()
	})
	return s
}

// config is that of a client which trusts the server.
func (s *server) config() email.Config {
	c := email.Config{
		Host: "127.0.0.1", Port: s.port, TLS: email.TLSNone, From: "Events <events@example.org>",
		Hello: "client.example.org", TLSConfig: &tls.Config{RootCAs: s.roots},
	}
	switch {
	case s.implicit:
		c.TLS = email.TLSImplicit
	case s.startTLS:
		c.TLS = email.TLSStartTLS
	}
	if s.user != "" {
		c.Username, c.Password = s.user, s.password
	}
	return c
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.done.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a broken test ends
			(&dialogue{server: s, conn: conn}).run()
		})
	}
}

func (s *server) seen() (conns int, commands []string, mails []received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, append([]string(nil), s.commands...), append([]received(nil), s.mails...)
}

// dialogue is one connection.
type dialogue struct {
	*server
	conn      net.Conn
	text      *textproto.Conn
	encrypted bool
	mail      received
}

func (d *dialogue) run() {
	d.mu.Lock()
	d.conns++
	d.mu.Unlock()
	if d.implicit {
		d.encrypt()
	} else {
		d.text = textproto.NewConn(d.conn)
	}
	d.say("220 test")
	for {
		line, err := d.text.ReadLine()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.commands = append(d.commands, line)
		d.mu.Unlock()
		command, argument, _ := strings.Cut(line, " ")
		if !d.dispatch(strings.ToUpper(command), argument) {
			return
		}
	}
}

func (d *dialogue) dispatch(command, argument string) (more bool) {
	if answered, more := d.scripted(command, argument); answered {
		return more
	}
	switch command {
	case "EHLO":
		d.hello()
	case "STARTTLS":
		d.say("220 go on")
		d.encrypt()
	case "AUTH":
		d.login(argument)
	case "MAIL":
		d.mail.from = argument
		d.say("250 ok")
	case "RCPT":
		d.mail.to = argument
		d.say("250 ok")
	case "DATA":
		return d.data()
	case "QUIT":
		d.say("221 bye")
		return false
	default:
		d.say("250 ok")
	}
	return true
}

// scripted does what the test wants at this command, if it wants something.
func (d *dialogue) scripted(command, argument string) (answered, more bool) {
	switch {
	case d.dropAt == command:
		return true, false
	case d.stallAt == command:
		close(d.stalled)
		<-d.quit
		return true, false
	}
	reply, ok := d.replies[command]
	if !ok {
		return false, true
	}
	if strings.Contains(reply, "%s") {
		decoded, _ := base64.StdEncoding.DecodeString(argument[strings.LastIndex(argument, " ")+1:])
		reply = fmt.Sprintf(reply, argument+" "+strings.ReplaceAll(string(decoded), "\x00", " "))
	}
	d.say(reply)
	return true, true
}

func (d *dialogue) hello() {
	lines := []string{"test.example.org", "8BITMIME", "ENHANCEDSTATUSCODES"}
	if d.startTLS && !d.encrypted {
		lines = append(lines, "STARTTLS")
	}
	if d.auth != "" {
		lines = append(lines, "AUTH "+d.auth)
	}
	if d.utf8 {
		lines = append(lines, "SMTPUTF8")
	}
	for i, line := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		d.say("250" + separator + line)
	}
}

func (d *dialogue) data() (more bool) {
	d.say("354 go on")
	content, err := d.text.ReadDotBytes()
	if err != nil {
		return false
	}
	d.mail.content, d.mail.encrypted = string(content), d.encrypted
	if answered, more := d.scripted(".", ""); answered {
		return more
	}
	d.mu.Lock()
	d.mails = append(d.mails, d.mail)
	d.mu.Unlock()
	d.say("250 taken")
	return true
}

func (d *dialogue) encrypt() {
	secured := tls.Server(d.conn, d.tls)
	d.conn, d.text, d.encrypted = secured, textproto.NewConn(secured), true
}

func (d *dialogue) say(line string) { _ = d.text.PrintfLine("%s", line) }

// ask sends a challenge and returns the decoded answer.
func (d *dialogue) ask(challenge string) string {
	d.say("334 " + base64.StdEncoding.EncodeToString([]byte(challenge)))
	line, _ := d.text.ReadLine()
	answer, _ := base64.StdEncoding.DecodeString(line)
	return string(answer)
}

func (d *dialogue) login(argument string) {
	mechanism, initial, _ := strings.Cut(argument, " ")
	var right bool
	switch mechanism {
	case "PLAIN":
		sent, _ := base64.StdEncoding.DecodeString(initial)
		right = string(sent) == "\x00"+d.user+"\x00"+d.password
	case "LOGIN":
		right = d.ask("Username:") == d.user
		right = d.ask("Password:") == d.password && right
	case "SCRAM-SHA-1", "SCRAM-SHA-256":
		right = d.scram(mechanism)
	case "CRAM-MD5":
		const challenge = "<1.2@test.example.org>"
		mac := hmac.New(md5.New, []byte(d.password))
		_, _ = mac.Write([]byte(challenge))
		right = d.ask(challenge) == d.user+" "+hex.EncodeToString(mac.Sum(nil))
	}
	if !right {
		d.say("535 5.7.8 no")
		return
	}
	d.mail.user = d.user
	d.say("235 welcome")
}

// certified is what a server on 127.0.0.1 and its clients need for TLS.
func certified() (*tls.Config, *x509.CertPool) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}
