//go:build umad && cgo

package umad

import (
	"encoding/binary"
	"time"
)

// manager is a wire that answers what other managers ask, as a manager does that
// is not active: the simulation takes this process for one.
type manager struct {
	*device
	port LocalPort
}

const attrSMInfo = 0x0020

func (w manager) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	ok, lost, err = w.device.receive(m, wait)
	if !ok || lost || m.method() != methodGet || m.attribute() != attrSMInfo {
		return ok, lost, err
	}
	m[3] = methodGetResp
	clear(m.data())
	binary.BigEndian.PutUint64(m.data(), uint64(w.port.GUID))
	dlid := uint16(w.from())
	if m.class() == classSubnDirected {
		m[4] |= 0x80 // the way back
		m[6] = 0     // the simulator's hop pointer
		dlid = permissive
	}
	return false, false, w.send(m, dlid)
}

// OpenAsManager is Open for a process that counts as a manager.
func OpenAsManager(p LocalPort, o Options) (*Reader, error) {
	l := o.withDefaults()
	d, err := open(p, 0, l.timeout, agent{class: classSubnLID, version: 1}, agent{class: classSubnDirected, version: 1})
	if err != nil {
		return nil, err
	}
	return &Reader{loop: newLoop(manager{d, p}, l), port: p}, nil
}
