//go:build umad && cgo

package umad

/*
#cgo LDFLAGS: -libumad
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/umad.h>

// fors_register registers an agent for a class. If reports is set, the agent gets unsolicited
// Reports.
static int fors_register(int port, int class, int version, int reports)
{
	long mask[16 / sizeof(long)];

	memset(mask, 0, sizeof mask);
	if (reports)
		mask[0] = 1L << 6;
	errno = 0;
	return umad_register(port, class, version, 0, reports ? mask : NULL);
}

// fors_send sends the datagram in the buffer.
static int fors_send(int port, int agent, void *umad, int dlid, int qp, int sl, int timeout)
{
	umad_set_addr(umad, dlid, qp, sl, qp ? 0x80010000 : 0);
	umad_set_grh(umad, NULL);
	umad_set_pkey(umad, 0);
	return umad_send(port, agent, umad, 256, timeout, 0);
}

// fors_receive returns 1 for a datagram, 0 without one, or -errno.
static int fors_receive(int port, void *umad, int wait)
{
	int length = 256, r = umad_recv(port, umad, &length, wait);

	if (r >= 0)
		return 1;
	// A datagram of several segments does not answer any of our requests.
	if (r == -ETIMEDOUT || r == -EWOULDBLOCK || r == -EINTR || r == -ENOSPC)
		return 0;
	return r;
}

static int fors_lid(void *umad)
{
	return ntohs(umad_get_mad_addr(umad)->lid);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// BuiltIn reports whether this program can use libibumad.
const BuiltIn = true

// initialise prepares the library; it may be called again.
func initialise() error {
	if C.umad_init() < 0 {
		return errors.New("the InfiniBand management interface is not there: run modprobe ib_umad, and put ib_umad into a file in /etc/modules-load.d")
	}
	return nil
}

// opening is held while ports are listed, opened and closed: the library does not say that
// this may be done at the same time.
var opening sync.Mutex

// LocalPorts lists the InfiniBand ports of this machine, device by device.
func LocalPorts() ([]LocalPort, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := initialise(); err != nil {
		return nil, fmt.Errorf("list the local ports: %w", err)
	}
	var names [C.UMAD_MAX_DEVICES][C.UMAD_CA_NAME_LEN]C.char
	n := C.umad_get_cas_names(&names[0], C.UMAD_MAX_DEVICES)
	if n < 0 {
		return nil, fmt.Errorf("list the local ports: %w", syscall.Errno(-n))
	}
	var found []LocalPort
	for i := range int(n) {
		var ca C.umad_ca_t
		if C.umad_get_ca(&names[i][0], &ca) < 0 {
			continue // it went away
		}
		for _, p := range ca.ports {
			if p != nil {
				found = append(found, describe(p))
			}
		}
		C.umad_release_ca(&ca)
	}
	return found, nil
}

func describe(p *C.umad_port_t) LocalPort {
	var guid [8]byte
	*(*C.__be64)(unsafe.Pointer(&guid)) = p.port_guid
	l := LocalPort{Device: C.GoString(&p.ca_name[0]), Number: int(p.portnum), GUID: guidOf(guid[:]),
		InfiniBand: C.GoString(&p.link_layer[0]) != "Ethernet"}
	if p.state > 0 && p.state <= 4 {
		l.State = topology.PortState(p.state - 1)
	}
	return l
}

// device is a local port, opened. One goroutine uses it.
type device struct {
	port    C.int
	agents  map[uint8]C.int // by class
	out, in unsafe.Pointer  // datagrams with the library's header, in C's memory
	timeout C.int           // ms, after which the kernel gives an unanswered datagram back
	qp      C.int
	sl      C.int
}

// agent is a class of datagrams to send and receive.
type agent struct {
	class, version uint8
	reports        bool
}

// open opens a local port for agents on queue pair qp.
func open(p LocalPort, qp int, timeout time.Duration, agents ...agent) (*device, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := initialise(); err != nil {
		return nil, err
	}
	name := C.CString(p.Device)
	defer C.free(unsafe.Pointer(name))
	port, cause := C.umad_open_port(name, C.int(p.Number))
	if port < 0 {
		return nil, notOpened(syscall.Errno(-port), cause)
	}
	size := C.umad_size() + madSize
	d := &device{port: port, agents: map[uint8]C.int{}, out: C.calloc(1, size), in: C.calloc(1, size),
		timeout: C.int(timeout.Milliseconds()), qp: C.int(qp)}
	for _, a := range agents {
		reports := C.int(0)
		if a.reports {
			reports = 1
		}
		id, err := C.fors_register(port, C.int(a.class), C.int(a.version), reports)
		if id < 0 {
			return nil, errors.Join(fmt.Errorf("register for management class %#02x: %v", a.class, err), d.free())
		}
		d.agents[a.class] = id
	}
	return d, nil
}

func (d *device) send(m *mad, dlid uint16) error {
	copy(unsafe.Slice((*byte)(C.umad_get_mad(d.out)), madSize), m[:])
	timeout := d.timeout
	if m.method()&methodResponse != 0 {
		timeout = 0 // nothing answers an answer
	}
	if r := C.fors_send(d.port, d.agents[m.class()], d.out, C.int(dlid), d.qp, d.sl, timeout); r < 0 {
		return syscall.Errno(-r)
	}
	return nil
}

func (d *device) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	switch r := C.fors_receive(d.port, d.in, C.int(max(1, wait.Milliseconds()))); {
	case r < 0:
		return false, false, syscall.Errno(-r)
	case r == 0:
		return false, false, nil
	}
	copy(m[:], unsafe.Slice((*byte)(C.umad_get_mad(d.in)), madSize))
	return true, C.umad_status(d.in) != 0, nil
}

// from returns the LID that the datagram received last came from.
func (d *device) from() ib.LID { return ib.LID(C.fors_lid(d.in)) }

// level sets the service level of sent datagrams.
func (d *device) level(sl uint8) { d.sl = C.int(sl) }

func (d *device) close() error {
	opening.Lock()
	defer opening.Unlock()
	return d.free()
}

// free closes the port, while opening is held.
func (d *device) free() error {
	r := C.umad_close_port(d.port) // it takes the agents along
	C.free(d.out)
	C.free(d.in)
	if r < 0 {
		return fmt.Errorf("close the port: %w", syscall.Errno(-r))
	}
	return nil
}
