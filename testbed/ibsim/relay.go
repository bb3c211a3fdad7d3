package ibsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A relay stands between a client and ibsim, and adds what the kernel does for
// programs on a real adapter and ibsim's client library does not do:
//
//   - An unanswered request comes back as timed out. Otherwise a manager waits for
//     ever for a peer that was killed with the request in its queue, or that has
//     just started and does not answer SMInfo yet; none of its sweeps ends any more.
//   - A TrapRepress reaches the manager that sent the trap. ibsim drops it, so that
//     every trap of a standby stays under way; after max_wire_smps of them
//     the standby sends nothing any more.
//   - Unsolicited MADs, such as Reports, reach a client that is not a manager, if
//     they are wanted; on a manager's host, only the Reports for the client do.
//   - A client does not get the answers to an earlier client's requests. ibsim's library
//     crashes on a datagram of a class that the client has not registered for yet,
//     such as the subnet administrator's late answer to a forsd that was killed.
//
// One manager alone needs none of it: ibsim answers at once for everything else.
type relay struct {
	sim  *Sim
	name string        // the client's IBSIM_SOCKNAME
	open bool          // unsolicited MADs are for the client as well
	host string        // where the client is
	down *net.UnixConn // control messages of the client
	up   *net.UnixConn // the same, to ibsim

	work sync.WaitGroup
	done chan struct{} // closed by close

	mu      sync.Mutex
	place   int           // the client's number in ibsim, -1 before it is connected
	client  *net.UnixConn // MADs of the client, nil before it is connected
	ibsim   *net.UnixConn // the same, to ibsim
	pending map[transaction]request
	beside  bool // Reports that come to a manager on the same host are for the client
	asks    bool // it has asked the subnet administrator for something
	closed  bool
}

// transaction identifies a request of a client and its answer.
type transaction struct {
	class uint8
	id    uint32
}

// request is a MAD on its way, as it was sent.
type request struct {
	packet [packetSize]byte
	sent   time.Time
}

// lostAfter is how long an answer may take. OpenSM asks the kernel for four
// times 200 ms.
const lostAfter = 500 * time.Millisecond

// The layout of ibsim's messages, whose numbers are in the machine's order.
const (
	ctlSize    = 80 // magic, client, type, length; 64 bytes of data
	ctlType    = 8
	ctlData    = 16 // of a connection: process ID in the request, client's number in the answer
	ctlUnasked = 24 // of a connection: whether the client gets unsolicited MADs
	ctlConnect = 1

	packetSize   = 288 // LIDs, QPs, status, length; 256 bytes of MAD
	packetStatus = 16
	packetMAD    = 32
)

// The MAD header's fields and methods that a relay looks at.
const (
	madClass       = packetMAD + 1
	madMethod      = packetMAD + 3
	madTransaction = packetMAD + 8
	madAttribute   = packetMAD + 16

	methodSet         = 0x02
	methodReport      = 0x06
	methodTrapRepress = 0x07
	methodResponse    = 0x80
	attributeLFT      = 0x0019 // LinearForwardingTable, of 64 entries
	classSMP          = 0x01
	classDirectedSMP  = 0x81
	classSubnAdm      = 0x03
)

// newRelay returns a relay for a client on a host that is started with its name as
// IBSIM_SOCKNAME; the flags are the relay's fields. It works until close.
func (s *Sim) newRelay(host string, open, beside bool) (r *relay, err error) {
	r = &relay{sim: s, name: socketName(), open: open, beside: beside, host: host, place: -1, pending: make(map[transaction]request), done: make(chan struct{})}
	if r.down, err = listenAt(r.name + ":ctl"); err == nil {
		r.up, err = listenAt(r.name + ":up")
	}
	if err == nil {
		err = connectTo(r.up, s.socket+":ctl")
	}
	if err != nil {
		r.close()
		return nil, err
	}
	s.mu.Lock()
	s.relays[r] = true
	s.mu.Unlock()
	r.work.Go(r.control)
	r.work.Go(r.expire)
	return r, nil
}

// close ends the relay; the client is cut off.
func (r *relay) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.done)
	}
	for _, c := range []*net.UnixConn{r.down, r.up, r.client, r.ibsim} {
		if c != nil {
			c.Close() // more than once does no harm
		}
	}
	r.mu.Unlock()
	r.work.Wait()
	r.sim.mu.Lock()
	delete(r.sim.relays, r)
	r.sim.mu.Unlock()
}

// closeAfter closes the relay when its client has ended; p is nil if the client
// could not be started.
func (r *relay) closeAfter(p *process) {
	if p == nil {
		r.close()
		return
	}
	go func() {
		<-p.done
		r.close()
	}()
}

// abstract is a name in the abstract name space as ibsim and its library write
// it: with the zero at its end.
func abstract(name string) string { return "@" + name + "\x00" }

// listenAt binds a socket to a name in the abstract name space.
func listenAt(name string) (*net.UnixConn, error) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: abstract(name), Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("relay to ibsim: %w", err)
	}
	return c, nil
}

// connectTo connects a bound socket: only a connected socket can wait for a full
// queue at the other end.
func connectTo(c *net.UnixConn, name string) error {
	raw, err := c.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = syscall.Connect(int(fd), &syscall.SockaddrUnix{Name: abstract(name)})
		}), err)
	}
	if err != nil {
		return fmt.Errorf("relay to ibsim: connect to %s: %w", name, err)
	}
	return nil
}

// control passes control messages and their answers on. The client has one under
// way at a time.
func (r *relay) control() {
	message := make([]byte, ctlSize)
	for {
		n, from, err := r.down.ReadFromUnix(message)
		if err != nil {
			return
		}
		from.Name += "\x00" // see abstract; Go takes it off
		connects := n == ctlSize && binary.NativeEndian.Uint32(message[ctlType:]) == ctlConnect
		pid := strconv.FormatUint(uint64(binary.NativeEndian.Uint32(message[ctlData:])), 10)
		if connects && r.listen(pid) != nil {
			return // the client cannot connect
		}
		if connects && r.open {
			binary.NativeEndian.PutUint32(message[ctlUnasked:], 1)
		}
		if _, err := r.up.Write(message[:n]); err != nil {
			return
		}
		if n, err = r.up.Read(message); err != nil {
			return
		}
		if connects && binary.NativeEndian.Uint32(message[ctlType:]) == ctlConnect && r.connect(pid, int(binary.NativeEndian.Uint32(message[ctlData:]))) != nil {
			return
		}
		if _, err := r.down.WriteToUnix(message[:n], from); err != nil {
			return
		}
	}
}

// listen opens the socket to which ibsim connects when it takes the client in.
func (r *relay) listen(pid string) error {
	c, err := listenAt(r.sim.socket + ":in" + pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ibsim = c
	return r.checked(c, err)
}

// checked closes a socket that comes after the relay's end.
func (r *relay) checked(c *net.UnixConn, err error) error {
	if err == nil && r.closed {
		err = errors.Join(net.ErrClosed, c.Close())
	}
	return err
}

// connect opens the way for MADs, as ibsim has given the client its number.
func (r *relay) connect(pid string, place int) error {
	number := strconv.Itoa(place)
	if err := connectTo(r.ibsim, r.sim.socket+":out"+number); err != nil {
		return err
	}
	c, err := listenAt(r.name + ":out" + number)
	if err == nil {
		err = connectTo(c, r.name+":in"+pid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checked(c, err); err != nil {
		return err
	}
	r.client, r.place = c, place
	r.work.Go(func() { forward(r.client, r.sends) })
	r.work.Go(func() { forward(r.ibsim, r.receives) })
	return nil
}

// forward hands over every packet that comes.
func forward(from *net.UnixConn, to func(packet []byte)) {
	packet := make([]byte, packetSize+1)
	for {
		n, err := from.Read(packet)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil && n == packetSize:
			to(packet[:n])
		}
	}
}

// of is the transaction to which a packet belongs. Client library and ibsim put
// marks of theirs into the upper half of its number.
func of(packet []byte) transaction {
	return transaction{packet[madClass], binary.BigEndian.Uint32(packet[madTransaction+4:])}
}

// sends takes a packet from the client.
func (r *relay) sends(packet []byte) {
	method := packet[madMethod]
	if method == methodTrapRepress {
		r.sim.repress(packet)
		return
	}
	if class := packet[madClass]; method == methodSet && (class == classSMP || class == classDirectedSMP) &&
		binary.BigEndian.Uint16(packet[madAttribute:]) == attributeLFT {
		r.sim.blocks.Add(1)
	}
	if method&methodResponse == 0 {
		r.mu.Lock()
		r.pending[of(packet)] = request{[packetSize]byte(packet), time.Now()}
		r.asks = r.asks || packet[madClass] == classSubnAdm
		r.mu.Unlock()
	}
	_, _ = r.ibsim.Write(packet) // a lost one times out
}

// receives takes a packet for the client. An answer that comes too late is
// dropped, as the kernel does.
func (r *relay) receives(packet []byte) {
	failed := binary.NativeEndian.Uint32(packet[packetStatus:]) != 0
	if (failed || packet[madMethod]&methodResponse != 0) && !r.answered(of(packet)) {
		return
	}
	if packet[madClass] == classSubnAdm && packet[madMethod] == methodReport && r.sim.report(r.host, packet) {
		return
	}
	_, _ = r.client.Write(packet) // it may have ended
}

// report hands a Report to the client on the host of the manager that received it, if any.
func (s *Sim) report(host string, packet []byte) (handed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.relays {
		r.mu.Lock()
		to := r.client
		if !r.beside || !r.asks || r.host != host {
			to = nil
		}
		r.mu.Unlock()
		if to != nil {
			_, _ = to.Write(packet)
			handed = true
		}
	}
	return handed
}

// answered removes a transaction from the list, if it is on it.
func (r *relay) answered(t transaction) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.pending[t]
	delete(r.pending, t)
	return found
}

// repress hands a TrapRepress to the client that sent the trap, whose number
// ibsim has put into the transaction.
func (s *Sim) repress(packet []byte) {
	place := int(binary.BigEndian.Uint16(packet[madTransaction:]))
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.relays {
		r.mu.Lock()
		there := r.place == place
		r.mu.Unlock()
		if there && packet[madClass] == classSMP && r.answered(of(packet)) {
			_, _ = r.client.Write(packet)
		}
	}
}

// expire returns the requests to the client that were not answered.
func (r *relay) expire() {
	tick := time.NewTicker(lostAfter / 10)
	defer tick.Stop()
	for {
		select {
		case <-r.done:
			return
		case now := <-tick.C:
			for _, packet := range r.lost(now) {
				binary.BigEndian.PutUint32(packet[packetStatus:], uint32(syscall.ETIMEDOUT))
				_, _ = r.client.Write(packet[:])
			}
		}
	}
}

// lost removes the requests that have waited long enough from the list.
func (r *relay) lost(now time.Time) (packets [][packetSize]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, q := range r.pending {
		if now.Sub(q.sent) >= lostAfter {
			packets = append(packets, q.packet)
			delete(r.pending, t)
		}
	}
	return packets
}
