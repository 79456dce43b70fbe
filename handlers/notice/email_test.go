package notice_test

import (
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
)

// smtpServer takes each mail, or answers to the recipient with a code, and passes the mails on.
func smtpServer(t *testing.T, code string) (config *email.Config, mails <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken, done := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			converse(textproto.NewConn(conn), code, taken)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return &email.Config{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, TLS: email.TLSNone,
		From: "tasks@example.org"}, taken
}

func converse(conn *textproto.Conn, code string, taken chan<- string) {
	defer func() { _ = conn.Close() }()
	_ = conn.PrintfLine("220 test")
	for {
		line, err := conn.ReadLine()
		if err != nil {
			return
		}
		switch command, _, _ := strings.Cut(line, " "); command {
		case "RCPT":
			_ = conn.PrintfLine("%s %s", code, line)
		case "DATA":
			_ = conn.PrintfLine("354 go on")
			content, _ := conn.ReadDotBytes()
			taken <- string(content)
			_ = conn.PrintfLine("250 taken")
		default:
			_ = conn.PrintfLine("250 test")
		}
	}
}

func TestAnEmail(t *testing.T) {
	t.Parallel()
	config, mails := smtpServer(t, "250")
	b := newBench(t, notice.Config{Email: config})
	b.rule(rules.Rule{}, "ann@example.org")
	b.die("one")
	if ran := b.run(nine.Add(time.Minute)); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
		t.Fatalf("ran %+v", ran)
	}
	got := <-mails
	for _, want := range []string{"To: <ann@example.org>", "Subject: Tasktable: one failed\n", "Message-ID: <",
		"09:00:00 one (FAILING) failed: out of paper\n", "tasktable why one\n"} {
		if !strings.Contains(strings.ReplaceAll(got, "\r", ""), want) {
			t.Errorf("the mail has no %q:\n%s", want, got)
		}
	}
}

// A server's refusal is an end, a temporary one is not, and without a server the notice waits for a node with one.
func TestAnEmailThatIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, outcome, says string }{
		"refused": {"550", "FAILED", "the server refused the recipient: 550"},
		"later":   {"451", "RETRIED", "the server refused the recipient: 451"},
		"none":    {"", "RETRIED", "this node has no mail server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, _ := smtpServer(t, c.code)
			if c.code == "" {
				config = nil
			}
			b := newBench(t, notice.Config{Email: config})
			b.rule(rules.Rule{}, "ann@example.org")
			b.die("one")
			ran := b.run(nine.Add(time.Minute))
			if len(ran) != 1 || string(ran[0].Outcome) != c.outcome || !strings.Contains(ran[0].Err.Error(), c.says) ||
				strings.Contains(fmt.Sprint(ran), "ann@example.org") {
				t.Errorf("ran %+v", ran)
			}
		})
	}
}
