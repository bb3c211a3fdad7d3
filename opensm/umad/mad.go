package umad

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/forsd/forsd/ib"
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

// The parsers take an attribute as it is in a datagram, at least as long as
// section 14.2.5 lays it out, and refuse values that no node can mean.

// nodeInfo is a node's description of itself (section 14.2.5.3).
type nodeInfo struct {
	kind  topology.Kind
	ports int
	guid  ib.GUID
	port  uint8 // by which the question came in
}

func parseNodeInfo(b []byte) (nodeInfo, error) {
	n := nodeInfo{kind: topology.Adapter, ports: int(b[3]), guid: guidOf(b[12:]), port: b[36]}
	switch b[2] {
	case 1:
	case 2:
		n.kind = topology.Switch
	case 3:
		n.kind = topology.Router
	default:
		return nodeInfo{}, fmt.Errorf("NodeInfo has node type %d: want 1 to 3", b[2])
	}
	if n.ports == 0 || n.ports == 255 {
		return nodeInfo{}, fmt.Errorf("NodeInfo has %d ports: want 1 to 254", n.ports)
	}
	return n, nil
}

// parseSwitchInfo gives the largest LID that a switch's linear table holds an
// entry for (LinearFDBTop, section 14.2.5.4).
func parseSwitchInfo(b []byte) (top ib.LID, err error) {
	top = ib.LID(binary.BigEndian.Uint16(b[6:]))
	if top > ib.MaxUnicastLID {
		return 0, fmt.Errorf("SwitchInfo has a table up to LID %d: unicast LIDs end at %d", top, ib.MaxUnicastLID)
	}
	return top, nil
}

// PortInfo is what is known of a port from its PortInfo (section 14.2.5.6).
type PortInfo struct {
	LID   ib.LID // base LID; of a switch's ports only port 0 has one
	SMLID ib.LID // of the master subnet manager, where the port has a LID
	SMSL  uint8  // the service level towards it
	State topology.PortState
	// Rate is the width and speed in use. FDR10 reads as QDR, because only a vendor's attribute
	// shows it. An unknown code gives an unknown width or speed.
	Rate ib.Rate
}

func parsePortInfo(b []byte) (PortInfo, error) {
	p := PortInfo{LID: ib.LID(binary.BigEndian.Uint16(b[16:])), SMLID: ib.LID(binary.BigEndian.Uint16(b[18:])),
		SMSL: b[36] & 15}
	switch state := b[32] & 15; state {
	case 1:
		p.State = topology.Down
	case 2:
		p.State = topology.Init
	case 3:
		p.State = topology.Armed
	case 4, 5: // 5 is ActiveDefer: the link retrains, and traffic waits for it
		p.State = topology.Active
	default:
		return PortInfo{}, fmt.Errorf("PortInfo has port state %d: want 1 to 5", state)
	}
	switch b[31] {
	case 1:
		p.Rate.Width = 1
	case 2:
		p.Rate.Width = 4
	case 4:
		p.Rate.Width = 8
	case 8:
		p.Rate.Width = 12
	case 16:
		p.Rate.Width = 2
	}
	p.Rate.Speed = speedOf(b[62]>>4, b[35]>>4)
	return p, nil
}

// speedOf returns the speed by LinkSpeedExtActive or, where that is 0, by LinkSpeedActive.
func speedOf(extended, plain uint8) ib.Speed {
	switch extended {
	case 1:
		return ib.FDR
	case 2:
		return ib.EDR
	case 4:
		return ib.HDR
	case 8:
		return ib.NDR
	case 0:
	default:
		return ib.UnknownSpeed
	}
	switch plain {
	case 1:
		return ib.SDR
	case 2:
		return ib.DDR
	case 4:
		return ib.QDR
	}
	return ib.UnknownSpeed
}

// Notice is a trap as the subnet administrator passes it on (section 13.4.8.2).
// Fields that a trap does not carry are zero.
type Notice struct {
	Trap uint16 // number of a generic trap
	// Subject is the LID of the switch whose link state changed (trap 128) or of
	// the port whose capabilities did (trap 144).
	Subject ib.LID
	// GUID is that of the port that came into service (trap 64) or left (65).
	GUID ib.GUID
}

// The traps that tell of changes of the fabric (section 14.2.5.1).
const (
	TrapInService    uint16 = 64  // an end port can be reached now
	TrapOutOfService uint16 = 65  // an end port cannot be reached any more
	TrapLinkState    uint16 = 128 // a link of a switch came up or went down
	TrapCapabilities uint16 = 144 // the capabilities of a port changed, such as to be a manager
)

// parseNotice reads the Notice of a Report. Vendors' own notices are an error.
func parseNotice(b []byte) (Notice, error) {
	if b[0]&0x80 == 0 {
		return Notice{}, fmt.Errorf("the notice is a vendor's own, of type %d", b[0]&0x7f)
	}
	n := Notice{Trap: binary.BigEndian.Uint16(b[4:])}
	switch details := b[10:]; n.Trap {
	case TrapInService, TrapOutOfService:
		n.GUID = guidOf(details[14:]) // the second half of a GID
	case TrapLinkState:
		n.Subject = ib.LID(binary.BigEndian.Uint16(details))
	case TrapCapabilities:
		n.Subject = ib.LID(binary.BigEndian.Uint16(details[2:]))
	}
	return n, nil
}

// informInfo is a subscription to a generic trap from whatever LID (section
// 13.4.8.3).
type informInfo struct {
	trap      uint16
	subscribe bool
}

const (
	informSize  = 36
	anyType     = 0xffff
	anyProducer = 0xffffff
	gsiQP       = 1
	oneSecond   = 18 // 4.096 µs · 2^18, the time in which a Report is answered
)

// put writes the attribute.
func (i informInfo) put(b []byte) {
	clear(b[:informSize])
	binary.BigEndian.PutUint16(b[16:], permissive) // issuers of all LIDs
	b[22] = 1                                      // generic
	if i.subscribe {
		b[23] = 1
	}
	binary.BigEndian.PutUint16(b[24:], anyType)
	binary.BigEndian.PutUint16(b[26:], i.trap)
	binary.BigEndian.PutUint32(b[28:], gsiQP<<8|oneSecond)
	binary.BigEndian.PutUint32(b[32:], anyProducer) // its first byte is reserved
}
