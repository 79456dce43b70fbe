package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

func (d *Dashboard) registerKeys(mux *http.ServeMux) {
	d.page(page{path: "/keys", template: "keys", title: "Keys", needs: Admin, global: true}, keysPage)
	d.page(page{path: "/keys/new", template: "keys-new", title: "New key", needs: Admin, global: true},
		func(context.Context, *visit) (any, error) { return newKeyForm(), nil })
	d.act(mux, act{path: "/keys/new", needs: Admin, global: true}, createKey)
	d.act(mux, act{path: "/keys/revoke", needs: Admin, global: true}, revokeKey)
}

// keysView is the list of keys.
type keysView struct {
	All  bool // revoked keys are in the list, too
	Keys []keyView
}

type keyView struct {
	keys.Key
	Expired bool
}

// State is revoked, expired or valid.
func (k keyView) State() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.Expired:
		return "expired"
	}
	return "valid"
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

func keyViewOf(key keys.Key, now time.Time) keyView {
	return keyView{Key: key, Expired: key.ExpiresAt != nil && !key.ExpiresAt.After(now)}
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

// revokeView asks before a key is revoked.
type revokeView struct {
	Key keyView
	// Own tells that the person is signed in by this key.
	Own bool
	// Last tells that no other valid key lets an admin sign in.
	Last bool
}

// revokeKey revokes the key of a number. The number and not the name says which, because another key can get the name
// of a revoked one.
func revokeKey(ctx context.Context, v *visit) (done, error) {
	found, err := v.board.config.Keys.List(ctx, v.db, true)
	if err != nil {
		return done{}, err
	}
	asked := revokeView{Last: v.board.config.Authenticate == nil}
	known := false
	for _, key := range found {
		each := keyViewOf(key, v.now)
		owner, signsIn := ownerOf(key)
		switch {
		case strconv.FormatInt(key.Number, 10) == v.form("number"):
			asked.Key, known = each, true
			asked.Last = asked.Last && signsIn && isAdmin(owner) && each.State() == "valid"
		case signsIn && isAdmin(owner) && each.State() == "valid":
			asked.Last = false
		}
	}
	switch {
	case !known:
		return done{}, problem{http.StatusNotFound, "Not found", errorView{Text: "There is no such key."}}
	case asked.Key.RevokedAt != nil:
		return done{}, alreadyRevoked(asked.Key.Key)
	}
	if v.form("confirmed") == "" {
		asked.Own, err = v.isOwnKey(ctx, asked.Key.Number)
		return done{show: "confirm-revoke", title: "Revoke a key", view: asked}, err
	}
	revoked, err := v.board.config.Keys.Revoke(ctx, v.db, asked.Key.Name, v.person.Name)
	if errors.Is(err, keys.ErrUnknownKey) || err == nil && revoked.Number != asked.Key.Number {
		return done{}, alreadyRevoked(asked.Key.Key)
	}
	said := "The key " + revoked.Name + " is revoked. Nodes may accept it for 5 more seconds."
	return done{text: said, to: "/keys"}, err
}

// isAdmin reports whether a person may manage keys. The pages of keys are not for tenants.
func isAdmin(person Person) bool { return person.Scopes.may(Admin) && person.Tenant == "" }

func alreadyRevoked(key keys.Key) error {
	text := "The key " + key.Name + " has been revoked already."
	if key.RevokedBy != nil {
		text = "The key " + key.Name + " has been revoked already, by " + *key.RevokedBy + "."
	}
	return problem{http.StatusConflict, "Changed meanwhile", errorView{Text: text}}
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
