package dashboard

import "net/http"

func (d *Dashboard) registerTask(*http.ServeMux) {}
