package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// generator makes requests from the schemas of the document. Some of them are valid, and most of the others have one
// or two mistakes, so that they reach the code behind the first check.
type generator struct {
	*rand.Rand
	schemas huma.Registry
}

// mistakes is how many of a hundred values do not fit their schema.
const mistakes = 6

func (g *generator) percent(n int) bool { return g.IntN(100) < n }

func pick[T any](g *generator, among ...T) T { return among[g.IntN(len(among))] }

// hostile are texts that a careless service breaks on.
var hostile = []string{
	"", " ", "\x00", "a\x00b", "\xff\xfe", "a\xc3", "\n", "\u2028", "\ufeff", "😀", "ä", "e\u0301", "\u202e", "null",
	"'; DROP TABLE tasks; --", `"\`, "%", "%00", "{}", "../..", ".", "..", "$1", "-1", "NaN", "1e400", "9223372036854775808",
	strings.Repeat("a", 513), strings.Repeat("ö", 300), strings.Repeat("x", 5000), "a,b,,", "<script>", "\\u0000",
}

// known are texts that mean something, by the name of their field.
var known = map[string][]string{
	"id":             {"task", "dead", "recurring", "running", "a/b", "task", "new"},
	"name":           {"charges", "a-1"},
	"queue":          {"default", "mail"},
	"type":           {"LOG", "TEST"},
	"cron":           {"0 9 * * *", "@daily", "@every 90s", "* * * * * *", "0 0 30 2 *", "TZ=0 * * * * *"},
	"time_zone":      {"UTC", "Europe/Vienna", "Local"},
	"wait":           {"1ms", "0s", "-1s", "2h"},
	"status":         {"FAILED", "EXPIRED", "QUEUED,PAUSED", "failed"},
	"scheduled_at":   {"2100-01-01T00:00:00Z", "1900-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-12:00"},
	"ends_at":        {"2100-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
	"If-Match":       {"*", `"1"`, "W/\"1\""},
	"cursor":         {encodedCursor, "e30", "bnVsbA"},
	"scheduled_from": {"0001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"},
}

// text returns a text for a field. Most of them fit the schema.
func (g *generator) text(name string, schema *huma.Schema) string {
	if g.percent(mistakes) {
		return pick(g, hostile...)
	}
	if len(schema.Enum) > 0 {
		return fmt.Sprint(pick(g, schema.Enum...))
	}
	name = map[string]string{"ids": "id", "after": "id", "id_prefix": "id", "spawned_by": "id"}[name] + name
	for field, texts := range known {
		if strings.HasPrefix(name, field) && g.percent(85) {
			return pick(g, texts...)
		}
	}
	if schema.Format == "date-time" {
		return pick(g, "2030-02-28T12:00:00Z", "2000-02-29T23:59:59.999999+14:00", "2030-01-01T00:00:00.123456789Z")
	}
	runes := []rune("abcXYZ019 -_.:/äß漢😀")
	length := g.IntN(12)
	if schema.MaxLength != nil && g.percent(4) {
		length = *schema.MaxLength + g.IntN(2)
	}
	var text strings.Builder
	for range length {
		text.WriteRune(pick(g, runes...))
	}
	return text.String()
}

// number returns the JSON of a number. The limits of the schema and the numbers next to them are frequent.
func (g *generator) number(schema *huma.Schema) string {
	low, high := deref(schema.Minimum), 1000.0
	if schema.Maximum != nil {
		high = *schema.Maximum
	}
	switch {
	case g.percent(mistakes):
		return pick(g, "-1", "1e300", "1e400", "-0", "0.5", "1e2", "9223372036854775808", "1E-7",
			fmt.Sprint(low-1), fmt.Sprintf("%.0f", high+1))
	case g.percent(20):
		return fmt.Sprintf("%.0f", pick(g, low, high))
	case schema.Type == huma.TypeNumber:
		return fmt.Sprintf("%.6f", low+g.Float64()*(high-low))
	}
	return fmt.Sprintf("%.0f", low+g.Float64()*(high-low))
}

// json returns the JSON of a value for a field.
func (g *generator) json(name string, schema *huma.Schema) string {
	for schema.Ref != "" {
		schema = g.schemas.SchemaFromRef(schema.Ref)
	}
	if g.percent(mistakes / 3) {
		return pick(g, "null", "0", `""`, "[]", "{}", "true", "[null]", `{"a": {"a": [1e5, null]}}`, `"\u0000"`, `"\ud800"`)
	}
	switch schema.Type {
	case huma.TypeObject:
		return g.object(schema)
	case huma.TypeArray:
		items := make([]string, g.IntN(4))
		for i := range items {
			items[i] = g.json(name, schema.Items)
		}
		return "[" + strings.Join(items, ",") + "]"
	case huma.TypeString:
		return quoted(g.text(name, schema))
	case huma.TypeBoolean:
		return pick(g, "true", "false")
	case huma.TypeInteger, huma.TypeNumber:
		return g.number(schema)
	}
	return pick(g, "1", `"any"`, "null")
}

// ofCron are the fields that only a task with cron may have.
var ofCron = []string{
	"cron", "time_zone", "overlap", "catch_up", "catch_up_paused", "catch_up_limit", "ends_at", "max_occurrences",
}

func (g *generator) object(schema *huma.Schema) string {
	var fields []string
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names) // so that the same seed makes the same request
	recurs := g.percent(30)
	for _, name := range names {
		needed := slices.Contains(schema.Required, name) || name == "cron" && recurs
		if slices.Contains(ofCron, name) && !recurs && !g.percent(mistakes/3) {
			continue
		}
		if needed && !g.percent(mistakes/3) || !needed && g.percent(20) {
			fields = append(fields, quoted(name)+":"+g.json(name, schema.Properties[name]))
		}
	}
	if schema.AdditionalProperties == true && g.percent(50) || g.percent(mistakes/3) {
		fields = append(fields, quoted(g.text("", &huma.Schema{}))+":"+pick(g, "1", "null", "12345678901234567890.10", `"ä"`))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// quoted returns a text as JSON. Bytes that are not UTF-8 stay as they are.
func quoted(text string) string {
	encoded, _ := json.Marshal(text)
	if strings.ContainsRune(text, 0xfffd) || !strings.Contains(string(encoded), `\ufffd`) {
		return string(encoded)
	}
	return `"` + text + `"`
}

// request makes a request for an operation.
func (g *generator) request(op *huma.Operation) (method, path, body string, header http.Header) {
	path, header = op.Path, http.Header{"Authorization": {"Bearer all"}}
	var query []string
	for _, parameter := range op.Parameters {
		var text string
		if parameter.Schema.Type == huma.TypeString || parameter.Schema.Type == huma.TypeArray {
			text = g.text(parameter.Name, parameter.Schema)
		} else {
			text = strings.Trim(g.json(parameter.Name, parameter.Schema), `"`)
		}
		switch {
		case parameter.In == "path":
			path = strings.ReplaceAll(path, "{"+parameter.Name+"}", url.PathEscape(text))
		case parameter.In == "query" && g.percent(25):
			query = append(query, parameter.Name+"="+url.QueryEscape(text))
		case parameter.In == "header" && g.percent(10) && !strings.ContainsAny(text, "\x00\n"):
			header.Set(parameter.Name, text)
		}
	}
	if g.percent(mistakes / 2) {
		query = append(query, pick(g, "unknown=1", "%zz", "a;b", "=", "limit=1&limit=2", "&&", "type", "%00=1"))
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	if op.RequestBody != nil {
		body = g.json("", op.RequestBody.Content["application/json"].Schema)
		if g.percent(mistakes / 2) {
			body = pick(g, "", "{", "nul", `{"a":1}{`, "\xff", strings.Repeat("[", 70), `{"payload":{"type":"LOG"},"payload":1}`)
		}
		if !g.percent(mistakes / 2) {
			header.Set("Content-Type", "application/json")
		} else if g.percent(50) {
			header.Set("Content-Type", pick(g, "text/plain", "application/xml", "application/json; charset=utf-8", ";", "application/cbor"))
		}
	}
	return op.Method, path, body, header
}
