package pg

// Twice runs do, and runs it again if it returned a data error. IsDataError explains why one such error is not
// enough.
func Twice(do func() error) error {
	err := do()
	if IsDataError(err) {
		err = do()
	}
	return err
}

// Bisect does something with all items, so that an item whose data the database refuses does not stop the others. If do
// returns a data error, Bisect halves the items until it has found each item that gets a data error twice by itself. It
// gives these items to broken, with the second error. It ends with the first other error that do or broken returns. do
// must have no effect when it returns an error.
func Bisect[T any](items []T, do func([]T) error, broken func(T, error) error) error {
	switch len(items) {
	case 0:
		return nil
	case 1:
		err := Twice(func() error { return do(items) })
		if IsDataError(err) {
			return broken(items[0], err)
		}
		return err
	}
	err := do(items)
	if !IsDataError(err) {
		return err
	}
	half := len(items) / 2
	if err := Bisect(items[:half], do, broken); err != nil {
		return err
	}
	return Bisect(items[half:], do, broken)
}
