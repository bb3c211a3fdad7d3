//go:build !umad || !cgo

package umad

import (
	"time"

	"github.com/forsd/forsd/ib"
)

// BuiltIn reports whether this program can use libibumad.
const BuiltIn = false

// LocalPorts lists the InfiniBand ports of this machine, device by device. This
// program was built without libibumad, and it returns ErrNotBuiltIn.
func LocalPorts() ([]LocalPort, error) { return nil, ErrNotBuiltIn }

// device is what a program with libibumad opens.
type device struct{}

// agent is a class of datagrams to send and receive.
type agent struct {
	class, version uint8
	reports        bool
}

func open(LocalPort, int, time.Duration, ...agent) (*device, error) { return nil, ErrNotBuiltIn }

func (*device) send(*mad, uint16) error { return ErrNotBuiltIn }

func (*device) receive(*mad, time.Duration) (ok, lost bool, err error) {
	return false, false, ErrNotBuiltIn
}

func (*device) from() ib.LID { return 0 }
func (*device) level(uint8)  {}
func (*device) close() error { return nil }
