package dashboard

import "net/http"

func (d *Dashboard) registerDeadLetters(*http.ServeMux) {}
