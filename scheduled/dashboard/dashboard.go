package dashboard

import (
	"html/template"
	"net/http"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
	"github.com/tasktable/tasktable/store"
)

// Dashboard shows tasks in a browser. It is safe for concurrent use.
type Dashboard struct {
	config    Config
	schema    store.Schema
	views     *http.ServeMux // it finds the page of a path; see page
	templates *template.Template
	files     map[string]staticFile
	feeds     *feeds
	histories map[string]history // of the overview, by the name of the window
	attention *kept[attentionRead]
	tabs      *kept[map[string]string]
	signIns   *fairuse.Rates  // by address
	forms     *fairuse.Shares // bytes of each person
	acts      *fairuse.Shares // acts of each person that have a connection
	handler   http.Handler
}

// Handler returns the handler of all paths under the Prefix.
func (d *Dashboard) Handler() http.Handler { return d.handler }
