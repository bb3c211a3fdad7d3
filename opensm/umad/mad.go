package umad

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/forsd/forsd/topology"
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
	classSubnDirected = 0x81 // SMPs on a directed route
)

// Methods.
const (
	methodGet        = 0x01
	methodSet        = 0x02
	methodReport     = 0x06
	methodResponse   = 0x80 // the bit that tells an answer from what it answers
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

// attributeName is the name of an attribute, or its number.
func attributeName(attr uint16) string {
	if name, ok := attributeNames[attr]; ok {
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

// tid is the half of the transaction ID that is ours. The kernel and the
// simulator put their own marks into the other one.
func (m *mad) tid() uint32 { return binary.BigEndian.Uint32(m[12:]) }

// data is the attribute of an SMP.
func (m *mad) data() []byte { return m[smpData : 2*smpData] }

// header fills in the part that all classes share.
func (m *mad) header(class, version, method uint8, tid uint32, attr uint16, mod uint32) {
	*m = mad{0: 1, 1: class, 2: version, 3: method}
	binary.BigEndian.PutUint32(m[12:], tid)
	binary.BigEndian.PutUint16(m[16:], attr)
	binary.BigEndian.PutUint32(m[20:], mod)
}

// way is how an SMP reaches its node: by LID or, where lid is 0, on a directed
// route: the output ports from the local one on, none for the local node itself.
type way struct {
	lid   topology.LID
	ports []uint8
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

// class is the management class of SMPs that go this way.
func (w way) class() uint8 {
	if w.lid != 0 {
		return classSubnLID
	}
	return classSubnDirected
}

// dlid is the LID that the datagram is addressed to.
func (w way) dlid() uint16 {
	if w.lid != 0 {
		return uint16(w.lid)
	}
	return permissive
}

// get fills in a SubnGet with M_Key 0 (sections 14.2.1.1 and 14.2.1.2).
func (m *mad) get(w way, tid uint32, attr uint16, mod uint32) {
	m.header(w.class(), 1, methodGet, tid, attr, mod)
	if w.lid != 0 {
		return
	}
	m[7] = uint8(len(w.ports)) // hop count; the hop pointer before it is 0
	binary.BigEndian.PutUint16(m[32:], permissive)
	binary.BigEndian.PutUint16(m[34:], permissive)
	copy(m[pathStart+1:], w.ports) // entry 0 of the path is not used
}
