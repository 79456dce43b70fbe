package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// DefaultsRequest has the defaults of a type: those fields of package form that a type may have.
type DefaultsRequest map[string]json.RawMessage

// Schema describes the request with the fields of package form.
func (DefaultsRequest) Schema(schemas huma.Registry) *huma.Schema {
	return named(schemas, "DefaultsRequest", formSchema(schemas, func(field form.Field) bool { return field.OfType }))
}

// Defaults are the defaults of a type, and who has set them.
type Defaults store.Defaults

// MarshalJSON writes the fields in the form that a request has.
func (d Defaults) MarshalJSON() ([]byte, error) {
	fields := form.JSON(store.Defaults(d).On(store.Task{}))
	fields["type"], fields["changed_at"], fields["changed_by"] = d.Type, d.ChangedAt, d.ChangedBy
	if d.DeclaredBy != "" {
		fields["declared_by"] = d.DeclaredBy
	}
	encoded, err := form.Encode(fields, "")
	if err != nil {
		return nil, fmt.Errorf("encode the defaults of type %s: %w", d.Type, err)
	}
	return encoded, nil
}

// Schema describes the fields that MarshalJSON writes.
func (Defaults) Schema(schemas huma.Registry) *huma.Schema {
	schema := formSchema(schemas, func(field form.Field) bool { return field.OfType },
		"type", "changed_at", "changed_by")
	schema.Properties["type"] = &huma.Schema{Type: huma.TypeString, Description: "The type, or * for all types."}
	schema.Properties["changed_at"] = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	schema.Properties["changed_by"] = &huma.Schema{Type: huma.TypeString}
	schema.Properties["declared_by"] = &huma.Schema{Type: huma.TypeString,
		Description: "The service whose code declares it."}
	return named(schemas, "Defaults", schema)
}

// AllDefaults are the defaults of all types that have any.
type AllDefaults struct {
	Defaults []Defaults `json:"defaults" nullable:"false" doc:"Sorted by type."`
}

// TypePath names a type in the path of a call.
type TypePath struct {
	Type string `path:"type" doc:"The type, or * for all types."`
}

type setDefaultsInput struct {
	Conditions
	TypePath
	Body DefaultsRequest
}

type removeDefaultsInput struct {
	Conditions
	TypePath
}

// DefaultsReceipt is the result of a call for the defaults of one type.
type DefaultsReceipt struct {
	Type    string        `json:"type"`
	Outcome store.Outcome `json:"outcome"`
}

func (a *API) registerDefaults() {
	readAll(a, huma.Operation{
		OperationID: "listDefaults", Method: http.MethodGet, Path: "/v1/defaults",
		Summary:     "List the defaults of types",
		Description: "The values of fields that a task of the type leaves out when it is scheduled.",
	}, func(ctx context.Context, c call, _ *struct{}) (AllDefaults, error) {
		all, err := c.tasks.Defaults(ctx, c.db)
		return AllDefaults{each(all, func(one store.Defaults) Defaults { return Defaults(one) })}, err
	})
	readAll(a, huma.Operation{
		OperationID: "getDefaults", Method: http.MethodGet, Path: "/v1/defaults/{type}",
		Summary: "Get the defaults of a type", Description: "Those that were set for just this type.",
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, c call, in *TypePath) (Defaults, error) {
		all, err := c.tasks.Defaults(ctx, c.db)
		for _, one := range all {
			if one.Type == in.Type {
				return Defaults(one), nil
			}
		}
		if err == nil {
			err = refusal(CodeNoDefaults, "the type has no defaults")
		}
		return Defaults{}, err
	})
	changeAll(a, huma.Operation{
		OperationID: "setDefaults", Method: http.MethodPut, Path: "/v1/defaults/{type}",
		Summary: "Set the defaults of a type", Description: "They replace all that the type had. Tasks that were " +
			"scheduled before stay as they are.",
	}, func(ctx context.Context, c call, in *setDefaultsInput) (DefaultsReceipt, error) {
		var task store.Task
		if err := form.SetJSON(&task, in.Body); err != nil {
			return DefaultsReceipt{}, err
		}
		defaults, err := form.DefaultsOf(in.Type, task)
		if err != nil {
			return DefaultsReceipt{}, err
		}
		outcome, err := c.tasks.SetDefaults(ctx, c.db, defaults)
		return DefaultsReceipt{in.Type, outcome}, err
	})
	changeAll(a, huma.Operation{
		OperationID: "removeDefaults", Method: http.MethodDelete, Path: "/v1/defaults/{type}",
		Summary: "Remove the defaults of a type",
	}, func(ctx context.Context, c call, in *removeDefaultsInput) (DefaultsReceipt, error) {
		outcome, err := c.tasks.RemoveDefaults(ctx, c.db, in.Type)
		return DefaultsReceipt{in.Type, outcome}, err
	})
}
