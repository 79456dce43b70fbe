package dashboard

import "net/http"

func (d *Dashboard) registerNotices(*http.ServeMux) {}
