package dashboard

import "net/http"

func (d *Dashboard) registerTasks(*http.ServeMux) {}
