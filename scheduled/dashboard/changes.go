package dashboard

import "net/http"

func (d *Dashboard) registerChanges(*http.ServeMux) {}
