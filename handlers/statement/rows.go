package statement

import (
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// maxResult is how many bytes of rows are kept.
const maxResult = 64 << 10

// rowOf is a row for the result, from Postgres's text format. It copies the values, because the connection reuses them.
func rowOf(fields []pgconn.FieldDescription, values [][]byte) map[string]any {
	row := map[string]any{}
	for i, field := range fields {
		row[field.Name] = valueOf(field.DataTypeOID, values[i])
	}
	return row
}

func valueOf(oid uint32, value []byte) any {
	text := string(value)
	switch oid {
	case pgtype.BoolOID:
		if value != nil {
			return text == "t"
		}
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID,
		pgtype.JSONOID, pgtype.JSONBOID:
		// NaN and Infinity are no JSON, and jsonb has no NUL.
		if json.Valid(value) && !strings.Contains(text, `\u0000`) {
			return json.RawMessage(text)
		}
	}
	if value == nil {
		return nil
	}
	return text
}
