package pg

import "hash/fnv"

// LockClass is the first key of an advisory lock. It keeps the locks of two schemas in one database apart. The second
// key of a node's lock is its number. The second key of the leader's lock is 0.
func LockClass(schema, kind string) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte("tasktable " + kind + " " + schema))
	return int32(hash.Sum32())
}
