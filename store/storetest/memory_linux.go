package storetest

import "syscall"

// memoryDir is where a file system in memory is, if there is one with room for the servers of several test processes: making the few hundred
// files of a test's database takes a tenth there of what it takes on many a virtual disk. A container's own, of 64 MB, is too small.
func memoryDir() string {
	const dir, tmpfs, least = "/dev/shm", 0x01021994, 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || int64(fs.Type) != tmpfs { //nolint:unconvert // of 32 bits on some machines
		return ""
	}
	if int64(fs.Bavail)*int64(fs.Bsize) < least { //nolint:unconvert // of 32 bits on some machines
		return ""
	}
	if syscall.Access(dir, 7) != nil { // to be read, written and entered
		return ""
	}
	return dir
}
