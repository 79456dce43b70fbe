package storetest

import "syscall"

// memoryDir returns a folder in memory, or "" if there is none with room for the servers of several test processes. A
// test's database has a few hundred files. To make them in memory takes a tenth of the time that many virtual disks
// need. The /dev/shm of a container has 64 MB, which is too small.
func memoryDir() string {
	const dir, tmpfs, least = "/dev/shm", 0x01021994, 4 << 30
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	if err != nil || int64(fs.Type) != tmpfs { //nolint:unconvert // it has 32 bits on some machines
		return ""
	}
	if int64(fs.Bavail)*int64(fs.Bsize) < least { //nolint:unconvert // it has 32 bits on some machines
		return ""
	}
	if syscall.Access(dir, 7) != nil { // it must be readable, writable and searchable
		return ""
	}
	return dir
}
