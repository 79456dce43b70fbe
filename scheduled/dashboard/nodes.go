package dashboard

import "net/http"

func (d *Dashboard) registerNodes(*http.ServeMux) {}
