package dashboard

import (
	"fmt"
	"net/http"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
	"github.com/tasktable/tasktable/store"
)

// New returns a Dashboard that is complete. It returns an error that names each wrong field of the Config.
func New(config Config) (*Dashboard, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	schema, err := store.NewSchema(config.Store.Schema)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d := &Dashboard{config: config.withDefaults(schema), schema: schema, views: http.NewServeMux(),
		histories: newHistories(), attention: newKept[attentionRead](), tabs: newKept[map[string]string](),
		signIns: fairuse.NewRates(), forms: fairuse.NewShares(formsOfAll, formsOfOne),
		acts: fairuse.NewShares(max(int64(config.Pool.Config().MaxConns)-1, 1), actsOfOne)}
	d.feeds = newFeeds(d)
	if d.files, err = readFiles(); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	if d.templates, err = readTemplates(); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", d.serveFile)
	mux.HandleFunc("POST /sign-in", d.signIn)
	mux.HandleFunc("POST /sign-out", d.signOut)
	mux.HandleFunc("POST /look", d.setLook)
	mux.HandleFunc("GET /live", d.serveLive)
	mux.HandleFunc("GET /search", d.search)
	for _, one := range pages {
		d.page(one)
	}
	for _, one := range acts() {
		d.act(mux, one)
	}
	mux.HandleFunc("GET /", d.servePage)
	d.handler = protect(mount(config.Prefix, mux), d.config.Logger)
	return d, nil
}
