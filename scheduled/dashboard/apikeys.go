package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

// keysView is the list of keys.
type keysView struct {
	All  bool // revoked keys are in the list, too
	Keys []keyView
}

type keyView struct {
	keys.Key
	State string // revoked, expired or valid
}

func keyViewOf(key keys.Key, now time.Time) keyView {
	switch {
	case key.RevokedAt != nil:
		return keyView{key, "revoked"}
	case key.ExpiresAt != nil && !key.ExpiresAt.After(now):
		return keyView{key, "expired"}
	}
	return keyView{key, "valid"}
}

// MayChange tells which tasks the key may change, as far as types and queues go.
func (k keyView) MayChange() string {
	text := "tasks of all types"
	switch {
	case len(k.Types) > 0:
		text = strings.Join(k.Types, ", ")
	case k.TenantID != "":
		text = "all types but EXEC, RUN_SQL, SEND_EMAIL"
	}
	if len(k.Queues) > 0 {
		text += " in the queues " + strings.Join(k.Queues, ", ")
	}
	return text
}

func keysPage(ctx context.Context, v *visit) (any, error) {
	shown := keysView{All: v.query("revoked") == "1"}
	found, err := v.board.config.Keys.List(ctx, v.db, shown.All)
	if err != nil {
		return nil, err
	}
	for _, key := range found {
		shown.Keys = append(shown.Keys, keyViewOf(key, v.now))
	}
	return shown, nil
}

// revokeKey revokes the key of a number. The number and not the name says which, because another key can get the name
// of a revoked one.
func revokeKey(ctx context.Context, v *visit) (done, error) {
	found, err := v.board.config.Keys.List(ctx, v.db, true)
	if err != nil {
		return done{}, err
	}
	var revoke keyView
	last, known := v.board.config.Authenticate == nil, false // no other valid key lets an admin sign in
	for _, key := range found {
		each := keyViewOf(key, v.now)
		owner, signsIn := ownerOf(key)
		switch {
		case strconv.FormatInt(key.Number, 10) == v.form("number"):
			revoke, known = each, true
			last = last && signsIn && isAdmin(owner) && each.State == "valid"
		case signsIn && isAdmin(owner) && each.State == "valid":
			last = false
		}
	}
	switch {
	case !known:
		return done{}, notFound("There is no such key.")
	case revoke.RevokedAt != nil:
		return done{}, alreadyRevoked(revoke.Key)
	}
	if v.form("confirmed") == "" {
		own, err := v.isOwnKey(ctx, revoke.Number)
		return v.askToRevoke(revoke, own, last).asked("Revoke the key " + revoke.Name + "?"), err
	}
	revoked, err := v.board.config.Keys.Revoke(ctx, v.db, revoke.Name, v.person.Name)
	if errors.Is(err, keys.ErrUnknownKey) || err == nil && revoked.Number != revoke.Number {
		return done{}, alreadyRevoked(revoke.Key)
	}
	said := "The key " + revoked.Name + " is revoked. Nodes may accept it for 5 more seconds."
	return done{text: said, to: "/keys"}, err
}

// askToRevoke asks before a key is revoked. own tells that the person is signed in by it, and last that no other valid
// key lets an admin sign in.
func (v *visit) askToRevoke(key keyView, own, last bool) confirmation {
	asked := confirmation{
		Facts: []fact{
			{Name: "Begins with", Text: key.Prefix + "…"},
			{Name: "Scopes", Text: strings.Trim(fmt.Sprint(key.Scopes), "[]")},
			{Name: "Service", Text: key.Service}, {Name: "Tenant", Text: cmp.Or(key.TenantID, "all")},
			{Name: "Created", Text: v.exact(key.CreatedAt) + " by " + key.CreatedBy},
			{Name: "Last used", Text: "never"},
		},
		Path: "/keys/revoke", Button: "Revoke " + key.Name, Danger: true, Back: "/keys",
	}.with("number", strconv.FormatInt(key.Number, 10))
	if key.LastUsedAt != nil {
		asked.Facts[5].Text = v.exact(*key.LastUsedAt)
	}
	if own {
		asked.Said = append(asked.Said, remark{Tone: "bad", Text: "You are signed in by this key. " +
			"You will be signed out, and you cannot sign in with it again."})
	}
	if last {
		asked.Said = append(asked.Said, remark{Tone: "bad", Text: "This is the last valid key of an admin. Without " +
			"it nobody can manage keys and notices here. An operator can make another by " +
			"tasktable keys create NAME --scope read,operate,admin."})
	}
	asked.Said = append(asked.Said, remark{Text: "Programs that call the API with it are refused within 5 seconds, " +
		"and people who are signed in by it are signed out. " +
		"This cannot be undone, but another key may have the name then."})
	return asked
}

// isAdmin reports whether a person may manage keys. The pages of keys are not for tenants.
func isAdmin(person Person) bool { return person.Scopes.may(Admin) && person.Tenant == "" }

func alreadyRevoked(key keys.Key) error {
	text := "The key " + key.Name + " has been revoked already."
	if key.RevokedBy != nil {
		text = "The key " + key.Name + " has been revoked already, by " + *key.RevokedBy + "."
	}
	return conflict(text)
}

// isOwnKey reports whether the person is signed in by the key of a number.
func (v *visit) isOwnKey(ctx context.Context, number int64) (bool, error) {
	cookie, err := v.request.Cookie(v.board.sessionCookie(v.request))
	if err != nil || v.board.config.Authenticate != nil {
		return false, nil
	}
	key, _, err := v.board.config.Keys.BySession(ctx, v.db, cookie.Value)
	if err != nil {
		return false, fmt.Errorf("find the key of the session: %w", err)
	}
	return key.Number == number, nil
}
