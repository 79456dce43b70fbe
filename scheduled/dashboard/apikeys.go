package dashboard

import "net/http"

func (d *Dashboard) registerKeys(*http.ServeMux) {}
