package community_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

func (w *world) join(member string) (joined community.Membership) {
	w.t.Helper()
	w.do(func(tx pgx.Tx) (err error) {
		joined, err = w.app.JoinCommunity(w.ctx, tx, "home", member)
		return err
	})
	return joined
}

// payloadOf decodes a follow-up's payload, which is encoded when the handler asks for it.
func payloadOf[P store.Payload](t *testing.T, task store.Task) (payload P) {
	t.Helper()
	encoded, err := json.Marshal(task.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, &payload); err != nil || task.Payload.TaskType() != payload.TaskType() {
		t.Fatalf("payload %s, %v", encoded, err)
	}
	return payload
}

// The whole workflow: the e-mail at once, the direct message a day later, each a task of its own.
func TestANewMemberIsWelcomed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	joined := w.join("outsider")
	welcome := w.task("task-WELCOME_MEMBER-" + joined.ID)
	if welcome.Status != store.StatusQueued || welcome.Entity == nil || *welcome.Entity != "membership:"+joined.ID {
		t.Errorf("%s %v", welcome.Status, welcome.Entity)
	}
	effects := w.mustRun(attempt(welcome, time.Time{}))
	if len(effects.FollowUps) != 2 {
		t.Fatalf("follow-ups %+v", effects.FollowUps)
	}
	mail, message := effects.FollowUps[0], effects.FollowUps[1]
	wantMail := contract.SendEmail{
		Email: "outsider@example.org", Subject: "Welcome to Home", Body: "You are a member of Home now.\n",
	}
	if got := payloadOf[contract.SendEmail](t, mail); got != wantMail || !mail.At.IsZero() {
		t.Errorf("mail %+v", mail)
	}
	wantMessage := contract.SendDirectMessage{
		From: "member-1", To: "outsider", Text: "How was your first day in Home? Ask me anything.",
	}
	if got := payloadOf[contract.SendDirectMessage](t, message); got != wantMessage ||
		!message.At.Equal(joined.JoinedAt.Add(24*time.Hour)) {
		t.Errorf("message %+v", message)
	}
	for _, followUp := range effects.FollowUps {
		if followUp.Entity != "membership:"+joined.ID || followUp.TenantID != "home" {
			t.Errorf("entity %q, tenant %q", followUp.Entity, followUp.TenantID)
		}
		receipt, err := w.tasks.Schedule(w.ctx, w.pool, followUp)
		if err != nil {
			t.Fatal(err)
		}
		w.runs(receipt.ID)
	}
	if sent := w.texts(`SELECT email || ': ' || subject FROM community.outbox`); !slices.Equal(sent, []string{
		"outsider@example.org: Welcome to Home",
	}) {
		t.Errorf("mails %q", sent)
	}
	if sent := w.texts(
		`SELECT sender || ' to ' || recipient FROM community.direct_messages`,
	); !slices.Equal(sent, []string{"member-1 to outsider"}) {
		t.Errorf("messages %q", sent)
	}
}

func TestTheHostGetsNoMessageFromTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	joined := w.join("member-1")
	effects := w.runs("task-WELCOME_MEMBER-" + joined.ID)
	if len(effects.FollowUps) != 1 || effects.FollowUps[0].Payload.TaskType() != "SEND_EMAIL" {
		t.Errorf("follow-ups %+v", effects.FollowUps)
	}
}

func TestJoiningTwiceWelcomesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.join("outsider")
	before := look(t, w.pool)
	if second := w.join("outsider"); second != first {
		t.Errorf("%+v, then %+v", first, second)
	}
	if after := look(t, w.pool); after != before {
		t.Errorf("got  %v\nwant %v", after, before)
	}
}

func TestLeavingEndsTheWelcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	joined := w.join("outsider")
	welcome := w.task("task-WELCOME_MEMBER-" + joined.ID)
	effects := w.mustRun(attempt(welcome, time.Time{}))
	message, err := w.tasks.Schedule(w.ctx, w.pool, effects.FollowUps[1])
	if err != nil {
		t.Fatal(err)
	}
	w.do(func(tx pgx.Tx) error { return w.app.LeaveCommunity(w.ctx, tx, "home", "outsider") })
	for _, id := range []string{welcome.ID, message.ID} {
		if row := w.task(id); row.Status != store.StatusCancelled {
			t.Errorf("%s is %s", id, row.Status)
		}
	}
	if effects := w.mustRun(attempt(welcome, time.Time{})); !strings.Contains(effects.Note, "is gone") ||
		len(effects.FollowUps) > 0 {
		t.Errorf("%+v", effects)
	}
	if again := w.join("outsider"); again.ID == joined.ID {
		t.Error("who joins again is not welcomed again")
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(revision int64, payload contract.SendDirectMessage) (handlers.Effects, error) {
		encoded, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		return w.run(&handlers.Execution{
			ID: "message-1", Type: payload.TaskType(), Payload: encoded, AskedRevision: revision, Attempt: 1,
		})
	}
	hello := contract.SendDirectMessage{From: "member-1", To: "member-2", Text: "Hello"}
	for range 2 { // as if an attempt were repeated
		if _, err := send(1, hello); err != nil {
			t.Fatal(err)
		}
	}
	if sent := w.texts(
		`SELECT concat_ws(' ', effect_key, sender, recipient, text) FROM community.direct_messages`,
	); !slices.Equal(sent, []string{"message-1:1 member-1 member-2 Hello"}) {
		t.Errorf("sent %q", sent)
	}
	if effects, err := send(2, contract.SendDirectMessage{From: "member-1", To: "nobody", Text: "Hello"}); err != nil ||
		!strings.Contains(effects.Note, "gone") {
		t.Errorf("%+v %v", effects, err)
	}
	for _, wrong := range []contract.SendDirectMessage{
		{From: "member-1", To: "member-2"}, {To: "member-2", Text: "Hello"}, {From: "member-1", Text: "Hello"},
	} {
		var permanent *handlers.PermanentError
		if _, err := send(3, wrong); !errors.As(err, &permanent) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestWrongMembersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		change func(tx pgx.Tx) error
		want   error
	}{
		"join of nobody": {
			func(tx pgx.Tx) error { _, err := w.app.JoinCommunity(w.ctx, tx, "home", "nobody"); return err },
			community.ErrNotFound,
		},
		"join of nothing": {
			func(tx pgx.Tx) error { _, err := w.app.JoinCommunity(w.ctx, tx, "nowhere", "outsider"); return err },
			community.ErrNotFound,
		},
		"leave of an outsider": {
			func(tx pgx.Tx) error { return w.app.LeaveCommunity(w.ctx, tx, "home", "outsider") }, community.ErrNotFound,
		},
		"a member without mail": {
			func(tx pgx.Tx) error { _, err := w.app.AddMember(w.ctx, tx, community.Member{}); return err },
			store.ErrInvalid,
		},
		"a community without a title": {func(tx pgx.Tx) error {
			_, err := w.app.AddCommunity(w.ctx, tx, community.Community{Host: "member-1"})
			return err
		}, store.ErrInvalid},
		"a community without a host": {func(tx pgx.Tx) error {
			_, err := w.app.AddCommunity(w.ctx, tx, community.Community{Title: "Away"})
			return err
		}, community.ErrNotFound},
	} {
		if err := w.refused(test.change); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
