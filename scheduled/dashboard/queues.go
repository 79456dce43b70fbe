package dashboard

import "net/http"

func (d *Dashboard) registerQueues(*http.ServeMux) {}
