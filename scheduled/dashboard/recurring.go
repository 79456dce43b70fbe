package dashboard

import "net/http"

func (d *Dashboard) registerRecurring(*http.ServeMux) {}
