package umad

import "time"

// Wire carries datagrams in place of a local port, as a simulated fabric does. One goroutine
// uses it.
type Wire interface {
	// Send takes a datagram for a LID.
	Send(datagram *[madSize]byte, dlid uint16) error
	// Receive waits at most the given time for a datagram, and returns false if none came.
	Receive(datagram *[madSize]byte, wait time.Duration) bool
}

// On returns a reader on a wire, which is not closed with it.
func On(w Wire, p LocalPort, o Options) *Reader {
	return &Reader{loop: newLoop(carrier{w}, o.withDefaults()), port: p}
}

type carrier struct{ Wire }

func (c carrier) send(m *mad, dlid uint16) error { return c.Send((*[madSize]byte)(m), dlid) }

func (c carrier) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	return c.Receive((*[madSize]byte)(m), wait), false, nil
}

func (carrier) close() error { return nil }
