package umad

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// notOpened explains why a port could not be opened: libibumad returns EIO for any failure
// at the device node; cause has the reason.
func notOpened(answer, cause error) error {
	if errors.Is(answer, syscall.EIO) && cause != nil {
		answer = cause
	}
	switch {
	case errors.Is(answer, fs.ErrPermission):
		return fmt.Errorf("%w: this user may not use /dev/infiniband/umad*, which 70-forsd.rules opens to the group forsd-umad: install it, then run udevadm control --reload and udevadm trigger -s infiniband_mad; forsd.service puts forsd into that group", answer)
	case errors.Is(answer, fs.ErrNotExist), errors.Is(answer, syscall.ENXIO), errors.Is(answer, syscall.ENODEV):
		return fmt.Errorf("%w: the port has no node in /dev/infiniband: run modprobe ib_umad, then udevadm trigger -s infiniband_mad", answer)
	}
	return fmt.Errorf("%w: check the rights on /dev/infiniband/umad*, and that the device is there", answer)
}
