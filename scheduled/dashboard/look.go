package dashboard

import (
	"net/http"
	"net/url"
	"time"
)

const (
	lookCookie = "tasktable_look"
	lookAge    = 365 * 24 * time.Hour
)

// look is how a person wants pages to be: the zone of times, and light or dark.
type look struct {
	zone  *time.Location
	theme string // "light", "dark", or "" for that of the person's system
}

// lookOf reads the person's cookie. Without one, times are in UTC.
func lookOf(r *http.Request) look {
	found := look{zone: time.UTC}
	cookie, err := r.Cookie(lookCookie)
	if err != nil {
		return found
	}
	values, err := url.ParseQuery(cookie.Value)
	if err != nil {
		return found
	}
	if zone, err := zoneOf(values.Get("zone")); err == nil {
		found.zone = zone
	}
	if theme := values.Get("theme"); theme == "light" || theme == "dark" {
		found.theme = theme
	}
	return found
}

// zoneOf reads the name of a zone. Local would be the server's.
func zoneOf(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return time.UTC, nil
	}
	return time.LoadLocation(name)
}

// setLook keeps the zone and the theme in a cookie.
func (d *Dashboard) setLook(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r, maxStrangerBytes); err != nil {
		d.fail(w, r, err)
		return
	}
	zone, err := zoneOf(r.PostFormValue("zone"))
	if err != nil {
		http.Error(w, "zone must be an IANA time zone, such as Europe/Berlin", http.StatusUnprocessableEntity)
		return
	}
	values := url.Values{"zone": {zone.String()}}
	if theme := r.PostFormValue("theme"); theme == "light" || theme == "dark" {
		values.Set("theme", theme)
	}
	d.setCookie(w, r, lookCookie, values.Encode(), lookAge)
	http.Redirect(w, r, d.link(d.localPath(r.PostFormValue("back"))), http.StatusSeeOther)
}
