package pg

import "time"

// Twice runs do, and runs it again if it returned a data error. IsDataError explains why one such error is not
// enough.
func Twice(do func() error) error {
	err := do()
	if IsDataError(err) {
		err = do()
	}
	return err
}

// Isolate does something with all items, so that a single item does not stop the others. refused says which errors may
// come of a single item: IsDataError, and others where each try takes but a moment. If do returns such an error,
// Isolate halves the items until it has found each item that gets one by itself, a data error twice. It gives these
// items to giveUp, with the last error. It ends with the first other error that do or giveUp returns. do must have no
// effect when it returns an error.
func Isolate[T any](refused func(error) bool, items []T, do func([]T) error, giveUp func(T, error) error) error {
	switch len(items) {
	case 0:
		return nil
	case 1:
		err := Twice(func() error { return do(items) })
		if refused(err) {
			return giveUp(items[0], err)
		}
		return err
	}
	err := do(items)
	if !refused(err) {
		return err
	}
	half := len(items) / 2
	if err := Isolate(refused, items[:half], do, giveUp); err != nil {
		return err
	}
	return Isolate(refused, items[half:], do, giveUp)
}

// stepTime is how long a step goes on to halve.
const stepTime = time.Second

// Step isolates items, of which it was given as many as size says. If they take too long, the next step takes half as
// many, and the items that are left are for the next step. A single item that takes too long goes to giveUp, too.
func Step[T any](size *Size, items []T, do func([]T) error, giveUp func(T, error) error) error {
	began, late := time.Now(), false
	err := Isolate(IsDataError, items, func(some []T) error {
		if late = time.Since(began) > stepTime; late {
			return nil
		}
		return do(some)
	}, giveUp)
	switch {
	case err == nil && late:
		size.Shrink(len(items))
	case err == nil:
		size.Grow()
	case IsTimeout(err) && !size.Shrink(len(items)) && len(items) == 1:
		return giveUp(items[0], err)
	}
	return err
}
