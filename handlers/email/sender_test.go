package email_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/handlers/email/contract"
	"github.com/tasktable/tasktable/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hello() contract.SendEmail {
	return contract.SendEmail{Email: "member-7@example.org", Subject: "Hello", Body: "Welcome.\n"}
}

// send runs one attempt as a node does: by the registry, from the payload's JSON.
func send(ctx context.Context, t *testing.T, config email.Config, payload contract.SendEmail, revision int64) error {
	t.Helper()
	part, err := email.Variant(config)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := handlers.NewRegistry(part)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return registry.Variant("SEND_EMAIL").Run(ctx, &handlers.Execution{
		ID: "mail-1", Type: "SEND_EMAIL", Payload: encoded, AskedRevision: revision, Attempt: 1,
	})
}

func permanent(err error) bool {
	var target *handlers.PermanentError
	return errors.As(err, &target)
}

// only is the one mail the server has taken.
func only(t *testing.T, s *server) received {
	t.Helper()
	_, _, mails := s.seen()
	if len(mails) != 1 {
		t.Fatalf("the server has taken %d mails", len(mails))
	}
	return mails[0]
}

func parse(t *testing.T, content string) *mail.Message {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(content))
	if err != nil {
		t.Fatalf("%v in %q", err, content)
	}
	return message
}

// text is the decoded body, with LF as the line end. Mail is lines, so what had no end at the last one has got one.
func text(t *testing.T, message *mail.Message) string {
	t.Helper()
	if encoding := message.Header.Get("Content-Transfer-Encoding"); encoding != "quoted-printable" {
		t.Fatalf("encoding %q", encoding)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAMailArrivesAsItWasScheduled(t *testing.T) {
	t.Parallel()
	s := serve(t, script{})
	payload := contract.SendEmail{
		Email: "Member 7 <member-7@example.org>", Subject: "Grüße – 今日は",
		Body: ".\n..\n.hidden\nQUIT\nFrom here on\n\nlast line äöü without an end",
	}
	if err := send(context.Background(), t, s.config(), payload, 3); err != nil {
		t.Fatal(err)
	}
	got := only(t, s)
	if !strings.HasPrefix(got.from, "FROM:<events@example.org>") || got.to != "TO:<member-7@example.org>" {
		t.Errorf("envelope %q %q", got.from, got.to)
	}
	message := parse(t, got.content)
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if err != nil || subject != payload.Subject {
		t.Errorf("subject %q %v", subject, err)
	}
	if from, to := message.Header.Get("From"), message.Header.Get("To"); from != `"Events" <events@example.org>` ||
		to != `"Member 7" <member-7@example.org>` {
		t.Errorf("from %q to %q", from, to)
	}
	if _, err := message.Header.Date(); err != nil {
		t.Error(err)
	}
	if body := text(t, message); body != payload.Body+"\n" {
		t.Errorf("body %q, want %q", body, payload.Body)
	}
}

func TestTextAndHTMLAreAlternatives(t *testing.T) {
	t.Parallel()
	s := serve(t, script{})
	payload := hello()
	payload.HTML = "<p>Welcome.</p>"
	if err := send(context.Background(), t, s.config(), payload, 1); err != nil {
		t.Fatal(err)
	}
	message := parse(t, only(t, s).content)
	media, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("%s %v", media, err)
	}
	var types, bodies []string
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := reader.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		types, bodies = append(types, part.Header.Get("Content-Type")), append(bodies, strings.TrimSpace(string(body)))
	}
	if want := []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"}; !slices.Equal(types, want) {
		t.Errorf("parts %q", types)
	}
	if want := []string{"Welcome.", "<p>Welcome.</p>"}; !slices.Equal(bodies, want) {
		t.Errorf("bodies %q", bodies)
	}
}

func TestHTMLAloneIsAMail(t *testing.T) {
	t.Parallel()
	s := serve(t, script{})
	if err := send(
		context.Background(), t, s.config(), contract.SendEmail{Email: "member-7@example.org", HTML: "<p>Hi</p>"}, 1,
	); err != nil {
		t.Fatal(err)
	}
	message := parse(t, only(t, s).content)
	if media := message.Header.Get("Content-Type"); media != "text/html; charset=UTF-8" ||
		text(t, message) != "<p>Hi</p>\n" {
		t.Error(media)
	}
}

func TestARepeatedAttemptHasTheSameMessageID(t *testing.T) {
	t.Parallel()
	s := serve(t, script{})
	for _, revision := range []int64{7, 7, 8} {
		if err := send(context.Background(), t, s.config(), hello(), revision); err != nil {
			t.Fatal(err)
		}
	}
	_, _, mails := s.seen()
	ids := make([]string, len(mails))
	for i, got := range mails {
		ids[i] = parse(t, got.content).Header.Get("Message-Id")
		if !regexp.MustCompile(`^<[0-9a-f]{32}@example\.org>$`).MatchString(ids[i]) {
			t.Errorf("Message-ID %q", ids[i])
		}
	}
	if ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("Message-IDs %q of revisions 7, 7, 8", ids)
	}
}

// What would inject headers, recipients or a second mail never reaches a server; what merely looks like it is content.
func TestHeadersCannotBeInjected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.SendEmail){
		"CRLF in the subject":    func(p *contract.SendEmail) { p.Subject = "hi\r\nBcc: all@example.org" },
		"LF in the subject":      func(p *contract.SendEmail) { p.Subject = "hi\nBcc: all@example.org" },
		"CR in the subject":      func(p *contract.SendEmail) { p.Subject = "hi\rBcc: all@example.org" },
		"folding in the subject": func(p *contract.SendEmail) { p.Subject = "hi\r\n there" },
		"the end of the headers": func(p *contract.SendEmail) { p.Subject = "hi\r\n\r\nanother body" },
		"NEL in the subject":     func(p *contract.SendEmail) { p.Subject = "hi\u0085Bcc: all@example.org" },
		"CRLF in the address": func(p *contract.SendEmail) {
			p.Email = "member-7@example.org\r\nBcc: all@example.org"
		},
		"a command in the address": func(p *contract.SendEmail) {
			p.Email = "member-7@example.org>\r\nRCPT TO:<all@example.org"
		},
		"CRLF in the name": func(p *contract.SendEmail) {
			p.Email = "\"Member\r\n Bcc: all@example.org\" <member-7@example.org>"
		},
		"an encoded CRLF in a name": func(p *contract.SendEmail) {
			p.Email = "=?utf-8?q?M=0D=0ABcc:_all@example.org?= <member-7@example.org>"
		},
		"LF in a quoted local part":  func(p *contract.SendEmail) { p.Email = "\"member\n7\"@example.org" },
		"a tab in the address":       func(p *contract.SendEmail) { p.Email = "Member 7\t<member-7@example.org>" },
		"two addresses":              func(p *contract.SendEmail) { p.Email = "member-7@example.org, all@example.org" },
		"a parameter of the command": func(p *contract.SendEmail) { p.Email = "member-7@example.org> NOTIFY=SUCCESS" },
		"no address":                 func(p *contract.SendEmail) { p.Email = "" },
		"no domain":                  func(p *contract.SendEmail) { p.Email = "member-7" },
		"no content":                 func(p *contract.SendEmail) { p.Body = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, script{})
			payload := hello()
			change(&payload)
			err := send(context.Background(), t, s.config(), payload, 1)
			if !permanent(err) {
				t.Errorf("got %v, want a permanent error", err)
			}
			if err != nil && strings.Contains(err.Error(), "all@example.org") {
				t.Errorf("the error quotes the payload: %v", err)
			}
			if conns, _, _ := s.seen(); conns != 0 {
				t.Error("the server was called")
			}
		})
	}
}

func TestABodyCannotEndTheMail(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"one\r\n.\r\nMAIL FROM:<other@example.org>\r\nRCPT TO:<all@example.org>\r\nDATA\r\ntwo",
		"one\n.\nQUIT\n", "one\r.\rQUIT", "one\n.\r\nQUIT", "one\r\n.\rQUIT", ".", "\n.\n",
	} {
		s := serve(t, script{})
		payload := hello()
		payload.Body = body
		if err := send(context.Background(), t, s.config(), payload, 1); err != nil {
			t.Fatal(err)
		}
		got := only(t, s)
		if got.to != "TO:<member-7@example.org>" {
			t.Errorf("recipient %q", got.to)
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body)
		if !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if received := text(t, parse(t, got.content)); received != want {
			t.Errorf("body %q, want %q", received, want)
		}
	}
}

func TestThePayloadIsATask(t *testing.T) {
	t.Parallel()
	if err := (store.Task{Payload: hello()}).Check(); err != nil {
		t.Error(err)
	}
	if id := store.IDOf(hello()); id != "" {
		t.Errorf("two mails would be one task: %s", id)
	}
}
