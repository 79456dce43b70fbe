package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// readTemplates reads all templates. The file tasks.html is the template tasks.
func readTemplates() (*template.Template, error) {
	all := template.New("").Funcs(template.FuncMap{
		"took": words.Took, "short": words.Short, "count": words.Count, "tone": findingTone, "join": strings.Join,
		"exactly": func(number any) string { return words.Count(number, false) },
		"dict":    dict,
	})
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := templateFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if _, err := all.New(strings.TrimSuffix(path.Base(name), ".html")).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dict makes a map of names and values by turns, for a template that another template calls.
func dict(given ...any) (map[string]any, error) {
	made := map[string]any{}
	for i := 0; i+1 < len(given); i += 2 {
		name, ok := given[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", given[i])
		}
		made[name] = given[i+1]
	}
	return made, nil
}

// main renders the own part of a page.
func (d *Dashboard) main(f frame, name string) (template.HTML, error) {
	var text bytes.Buffer
	if err := d.templates.ExecuteTemplate(&text, name, f); err != nil {
		return "", fmt.Errorf("render the page %s: %w", name, err)
	}
	return template.HTML(text.String()), nil //nolint:gosec // the template has escaped it
}

// write renders a whole page, and writes it.
func (d *Dashboard) write(w http.ResponseWriter, v *visit, of answer) {
	f := frame{visit: v, Title: of.title, View: of.view}
	main, err := d.main(f, of.template)
	if err == nil {
		f.Main, f.Said = main, d.said(w, v.request)
		var whole bytes.Buffer
		if err = d.templates.ExecuteTemplate(&whole, "layout", f); err == nil {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(of.status)
			_, _ = w.Write(whole.Bytes()) // the browser has gone if this fails
			return
		}
	}
	d.config.Logger.Error("a page could not be rendered", "path", v.request.URL.Path, "error", err)
	http.Error(w, "the page could not be rendered; the log has the reason", http.StatusInternalServerError)
}

// staticFile is a file that pages name.
type staticFile struct {
	text    []byte
	version string // of its content, so that a browser may keep it forever
}

func readFiles() (map[string]staticFile, error) {
	files := map[string]staticFile{}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := staticFiles.ReadFile("static/" + entry.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		files[entry.Name()] = staticFile{text, hex.EncodeToString(sum[:8])}
	}
	return files, nil
}

// serveFile needs no person, because the page for signing in has these files, too.
func (d *Dashboard) serveFile(w http.ResponseWriter, r *http.Request) {
	file, known := d.files[r.PathValue("file")]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("file"))))
	if r.URL.Query().Get("v") == file.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(file.text)
}
