package dashboard

import (
	"net/http"

	notice "github.com/tasktable/tasktable/handlers/notice/contract"
)

// reserved refuses the change of a notice, or of the watch, to everybody but an admin, who manages notices. Otherwise
// who may schedule could keep others from being told.
func reserved(person Person, id, taskType string) error {
	if person.Scopes.may(Admin) && person.Tenant == "" || !notice.Reserved(id, taskType) {
		return nil
	}
	return tell(http.StatusForbidden, "Not allowed",
		"Notices and their watch are the engine's. To change one needs the scope admin. Nothing was done.")
}
