package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// bodyOf returns the schema of an operation's body, and nil if it has none.
func bodyOf(op *huma.Operation) *huma.Schema {
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	return op.RequestBody.Content["application/json"].Schema
}

// level is an object or an array within which a reader of a body is.
type level struct {
	schema *huma.Schema    // nil: not known, as within a payload
	names  map[string]bool // nil: an array
	name   string          // of the field that is read
	place  int             // in the array, of the value that is read
	value  bool            // the next token is a value, and no name
}

// fieldsReader reads the names and the numbers of a body.
type fieldsReader struct {
	schemas huma.Registry
	body    *huma.Schema
	levels  []level
}

// checkFields refuses two fields of one name in an object, because readers differ on which of the two counts. It
// refuses a name that differs from that of the schema in its case, because encoding/json takes it for the field, so
// that the object has two fields of one meaning. It refuses null, because the reader of the body takes it for a field
// that is missing, and a filter or a limit with fewer fields selects more tasks. And it refuses numbers that
// encoding/json could not read, because its error is for programmers in Go. More than MaxDepth levels are refused, too.
// A body that is no JSON is not looked at to its end.
func checkFields(body []byte, schemas huma.Registry, schema *huma.Schema) *Problem {
	reader := fieldsReader{schemas: schemas, body: schema}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil
		}
		if refused := reader.take(token); refused != nil {
			return refused
		}
	}
}

func (f *fieldsReader) take(token json.Token) *Problem {
	in := &level{}
	if len(f.levels) > 0 {
		in = &f.levels[len(f.levels)-1]
	}
	if token == json.Delim('}') || token == json.Delim(']') {
		f.levels = f.levels[:len(f.levels)-1]
		return nil
	}
	if name, isText := token.(string); isText && in.names != nil && !in.value {
		return f.takeName(in, name)
	}
	in.value = false
	in.place++
	switch token := token.(type) {
	case nil:
		return f.checkNull()
	case json.Number:
		return f.checkNumber(string(token))
	case json.Delim:
		next := level{schema: f.schema(), place: -1}
		if token == '{' {
			next.names = map[string]bool{}
		}
		if f.levels = append(f.levels, next); len(f.levels) > MaxDepth {
			return refusal(CodeMalformed, fmt.Sprintf("the body must have at most %d levels of nesting", MaxDepth))
		}
	}
	return nil
}

func (f *fieldsReader) takeName(in *level, name string) *Problem {
	if in.names[name] {
		return refusal(CodeMalformed, "the body must not have two fields of one name in one object")
	}
	in.names[name], in.name, in.value = true, name, true
	if in.schema == nil || in.schema.AdditionalProperties != false || in.schema.Properties[name] != nil {
		return nil // any name, or a right one
	}
	for right := range in.schema.Properties {
		if strings.EqualFold(name, right) {
			return invalid(fmt.Sprintf("%s: unexpected property; write %s", f.where(), right))
		}
	}
	return nil // the schema refuses it
}

func (f *fieldsReader) checkNull() *Problem {
	if schema := f.schema(); schema == nil || schema.Nullable || len(f.levels) == 0 {
		return nil
	}
	return invalid(f.where() + ": must not be null: a field without a value is left out")
}

func (f *fieldsReader) checkNumber(number string) *Problem {
	if value, err := strconv.ParseFloat(number, 64); err != nil || math.IsInf(value, 0) {
		return invalid(f.where() + ": expected a number that 64 bits can hold, of 1.8e308 at most")
	}
	if schema := f.schema(); schema != nil && schema.Type == huma.TypeInteger && strings.ContainsAny(number, ".eE") {
		return invalid(f.where() + ": expected integer, written with digits alone")
	}
	return nil
}

// schema returns the schema of the value that is read.
func (f *fieldsReader) schema() *huma.Schema {
	schema := f.body
	if len(f.levels) > 0 {
		switch in := f.levels[len(f.levels)-1]; {
		case in.schema == nil:
			return nil
		case in.names == nil:
			schema = in.schema.Items
		default:
			schema = in.schema.Properties[in.name]
		}
	}
	for schema != nil && schema.Ref != "" {
		schema = f.schemas.SchemaFromRef(schema.Ref)
	}
	return schema
}

// where names the value that is read, as the errors of the schema do.
func (f *fieldsReader) where() string {
	var text strings.Builder
	text.WriteString("body")
	for _, in := range f.levels {
		if in.names == nil {
			fmt.Fprintf(&text, "[%d]", in.place)
		} else {
			text.WriteString("." + in.name)
		}
	}
	return text.String()
}
