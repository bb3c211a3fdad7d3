package umad

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/forsd/forsd/ib"
)

// Sizes of a management datagram, in bytes (InfiniBand Architecture, volume 1,
// release 1.4, sections 13.4.2 and 14.2.1).
const (
	madSize   = 256
	smpData   = 64  // offset and length of an SMP's attribute
	saData    = 56  // offset of an SA MAD's attribute
	pathStart = 128 // offset of the initial path of a directed route
)

// Management classes.
const (
	classSubnLID      = 0x01 // SMPs routed by LID
	classSubnAdm      = 0x03 // subnet administration
	classPerf         = 0x04 // performance management
	classSubnDirected = 0x81 // SMPs on a directed route
)

// Methods.
const (
	methodGet        = 0x01
	methodSet        = 0x02
	methodReport     = 0x06
	methodResponse   = 0x80 // the bit that marks a response
	methodGetResp    = methodResponse | methodGet
	methodReportResp = methodResponse | methodReport
)

// Attributes.
const (
	attrNotice      = 0x0002
	attrInformInfo  = 0x0003
	attrNodeInfo    = 0x0011
	attrSwitchInfo  = 0x0012
	attrPortInfo    = 0x0015
	attrLinearTable = 0x0019
)

// Attributes of performance management. Their numbers are used by other classes too.
const (
	attrClassPortInfo        = 0x0001
	attrPortCounters         = 0x0012
	attrPortCountersExtended = 0x001d
)

// statusBusy is the status of a node that asks to be asked again; statusMask
// leaves out the direction bit of a directed route.
const (
	statusBusy = 0x0001
	statusMask = 0x7fff
)

// permissive is the LID that means "this end of the link", and, in a directed
// route, "no part of the way goes by LID".
const permissive = 0xffff

// maxHops is the longest directed route.
const maxHops = 63

var attributeNames = map[uint16]string{attrNotice: "Notice", attrInformInfo: "InformInfo", attrNodeInfo: "NodeInfo",
	attrSwitchInfo: "SwitchInfo", attrPortInfo: "PortInfo", attrLinearTable: "LinearForwardingTable"}

var counterNames = map[uint16]string{attrClassPortInfo: "ClassPortInfo", attrPortCounters: "PortCounters",
	attrPortCountersExtended: "PortCountersExtended"}

// attributeName returns the name of an attribute of a class, or its number.
func attributeName(class uint8, attr uint16) string {
	names := attributeNames
	if class == classPerf {
		names = counterNames
	}
	if name, ok := names[attr]; ok {
		return name
	}
	return fmt.Sprintf("attribute %#04x", attr)
}

// mad is a management datagram as it is on the wire.
type mad [madSize]byte

func (m *mad) class() uint8      { return m[1] }
func (m *mad) method() uint8     { return m[3] }
func (m *mad) status() uint16    { return binary.BigEndian.Uint16(m[4:]) & statusMask }
func (m *mad) attribute() uint16 { return binary.BigEndian.Uint16(m[16:]) }
func (m *mad) modifier() uint32  { return binary.BigEndian.Uint32(m[20:]) }

// tid returns the half of the transaction ID that is ours. The kernel and the simulator put
// their own marks into the other one.
func (m *mad) tid() uint32 { return binary.BigEndian.Uint32(m[12:]) }

// data returns the attribute of an SMP, or of a datagram of performance management, which
// is longer.
func (m *mad) data() []byte {
	if m.class() == classPerf {
		return m[smpData:]
	}
	return m[smpData : 2*smpData]
}

// header fills in the part that all classes share.
func (m *mad) header(class, version, method uint8, tid uint32, attr uint16, mod uint32) {
	*m = mad{0: 1, 1: class, 2: version, 3: method}
	binary.BigEndian.PutUint32(m[12:], tid)
	binary.BigEndian.PutUint16(m[16:], attr)
	binary.BigEndian.PutUint32(m[20:], mod)
}

// way is how a datagram reaches its node: by LID or, where lid is 0, on a directed
// route: the output ports from the local one on, none for the local node itself.
type way struct {
	lid      ib.LID
	ports    []uint8
	counters bool // it is performance management that is asked
}

// String names the way in words.
func (w way) String() string {
	switch {
	case w.lid != 0:
		return fmt.Sprintf("LID %d", w.lid)
	case len(w.ports) == 0:
		return "the local port"
	}
	text := "the route over ports "
	for i, p := range w.ports {
		if i > 0 {
			text += ","
		}
		text += strconv.Itoa(int(p))
	}
	return text
}

// class returns the management class of SMPs that go this way.
func (w way) class() uint8 {
	switch {
	case w.counters:
		return classPerf
	case w.lid != 0:
		return classSubnLID
	}
	return classSubnDirected
}

// dlid returns the LID that the datagram is addressed to.
func (w way) dlid() uint16 {
	if w.lid != 0 {
		return uint16(w.lid)
	}
	return permissive
}

// get fills in a SubnGet with M_Key 0 (sections 14.2.1.1 and 14.2.1.2), or, of counters, a
// PerformanceGet, which has the port in the attribute (section 16.1.3.5).
func (m *mad) get(w way, tid uint32, attr uint16, mod uint32) {
	if w.counters {
		m.header(classPerf, 1, methodGet, tid, attr, 0)
		m[smpData+1] = uint8(mod)
		return
	}
	m.header(w.class(), 1, methodGet, tid, attr, mod)
	if w.lid != 0 {
		return
	}
	m[7] = uint8(len(w.ports)) // hop count; the hop pointer before it is 0
	binary.BigEndian.PutUint16(m[32:], permissive)
	binary.BigEndian.PutUint16(m[34:], permissive)
	copy(m[pathStart+1:], w.ports) // entry 0 of the path is not used
}
