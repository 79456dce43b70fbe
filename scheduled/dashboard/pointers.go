package dashboard

import "strconv"

// valueOr is the value of a pointer, or the zero value.
func valueOr[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// textOf is the text of a pointer, or "".
func textOf[T ~string](text *T) string {
	return string(valueOr(text))
}

// numberOf is the number of a pointer as text, or "".
func numberOf[T int | int64](number *T) string {
	if number == nil {
		return ""
	}
	return strconv.FormatInt(int64(*number), 10)
}
