package umad

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestNotOpened has each way in which the node of a port cannot be used say what to do.
func TestNotOpened(t *testing.T) {
	for _, c := range []struct {
		answer, cause error
		want          string
	}{
		{syscall.EIO, syscall.EACCES, "permission denied: this user may not use /dev/infiniband/umad*, which 70-forsd.rules opens to the group forsd-umad: install it"},
		{syscall.EIO, syscall.EPERM, "operation not permitted: this user may not use"},
		{syscall.EIO, syscall.ENOENT, "no such file or directory: the port has no node in /dev/infiniband: run modprobe ib_umad, then udevadm trigger"},
		{syscall.ENODEV, nil, "no such device: the port has no node in /dev/infiniband"},
		{syscall.EIO, nil, "input/output error: check the rights"},
		{syscall.EINVAL, syscall.ENOENT, "invalid argument: check the rights"},
	} {
		err := notOpened(c.answer, c.cause)
		if !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, c.answer) && !errors.Is(err, c.cause) {
			t.Errorf("%v, %v: %q", c.answer, c.cause, err)
		}
	}
}
