package plugin

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// forsdEnd is forsd's end without an OpenSM.
type forsdEnd struct {
	t          *testing.T
	path       string
	events     chan Event
	complaints chan error
}

// startEnd starts a server that answers with tables.
func startEnd(t *testing.T, tables func(context.Context, Request) (*lft.Tables, error)) *forsdEnd {
	t.Helper()
	dir, err := os.MkdirTemp("", "fors-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &forsdEnd{t, filepath.Join(dir, "sock"), make(chan Event, 1000), make(chan error, 1000)}
	server, err := Listen(Config{Path: f.path, Tables: tables, Event: func(e Event) { f.events <- e }, Complain: func(err error) { f.complaints <- err }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(f.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	return f
}

// client speaks as the plugin does.
type client struct {
	t    *testing.T
	conn net.Conn
}

func (f *forsdEnd) dial() *client {
	f.t.Helper()
	conn, err := net.Dial("unix", f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return &client{f.t, conn}
}

// helloBody is a greeting in a version of the protocol.
func helloBody(version uint16, state State) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(magic), version)
	b = append(b, byte(state), 0)
	b = binary.LittleEndian.AppendUint32(b, 4711)
	b = binary.LittleEndian.AppendUint32(b, 50000)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 0x100001)
	return appendText(b, "OpenSM 3.3.23")
}

// connect connects and greets.
func (f *forsdEnd) connect() *client {
	f.t.Helper()
	c := f.dial()
	c.send(kindHello, helloBody(version, Master))
	if w := c.read(); w.kind != kindWelcome || string(w.body) != magic+string([]byte{version, 0, 0, 0}) {
		f.t.Fatalf("welcomed by %#x %q", w.kind, w.body)
	}
	got := [2]Event{<-f.events, <-f.events}
	if c, ok := got[0].(Connected); !ok || c.Peer != (Peer{uint32(os.Geteuid()), 4711, "OpenSM 3.3.23", 0x100001, 50 * time.Millisecond}) {
		f.t.Errorf("%+v", got[0])
	}
	if m, ok := got[1].(Mastership); !ok || m.State != Master {
		f.t.Errorf("%+v", got[1])
	}
	return c
}

// message is a whole message, of long ago.
func message(k kind, body []byte) []byte {
	return messageAt(time.Unix(1, 2), k, body)
}

func messageAt(at time.Time, k kind, body []byte) []byte {
	return finish(append(newFrame(k, at), body...))
}

func (c *client) send(k kind, body []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(message(k, body)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() frame {
	c.t.Helper()
	f, err := readFrame(c.conn)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// words is a body of numbers.
func words(ws ...uint64) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// requestBody asks for tables.
func requestBody(number, generation, held uint64, left time.Duration) []byte {
	b := binary.LittleEndian.AppendUint32(words(number, generation, held), uint32(left.Microseconds()))
	return append(b, 0xFF, 0xBF, 0, 0)
}

// TestTurnsAway checks that a client without a correct greeting is ignored.
func TestTurnsAway(t *testing.T) {
	f := startEnd(t, nil)
	for _, c := range []struct {
		says string
		data []byte
	}{
		{"version 3 of the protocol, forsd version 2", message(kindHello, helloBody(3, Master))},
		{`"forsosm\n" was expected`, message(kindHello, append([]byte("GET / HT"), helloBody(version, Master)[8:]...))},
		{"hello was expected", message(kindSweep, nil)},
		{"state 4", message(kindHello, helloBody(version, 4))},
		{"length", message(kindHello, helloBody(version, Master)[:40])},
		{"length", message(kindHello, append(helloBody(version, Master), 0))},
		{"at most 67108864", []byte{0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"EOF", []byte{1, 2, 3}},
	} {
		client := f.dial()
		if _, err := client.conn.Write(c.data); err != nil {
			t.Fatal(err)
		}
		if err := client.conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := <-f.complaints; !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
		if rest, _ := io.ReadAll(client.conn); len(rest) > 0 {
			t.Errorf("%s: answered %q", c.says, rest)
		}
	}
	f.connect()
	f.dial().send(kindHello, helloBody(version, Master))
	if err := <-f.complaints; !strings.Contains(err.Error(), "that of process 4711 is connected") {
		t.Error(err)
	}
	if len(f.events) > 0 {
		t.Errorf("%+v", <-f.events)
	}
}

// TestBadMessages checks that an unreadable message ends the connection, with an error that
// names the message and the reason.
func TestBadMessages(t *testing.T) {
	f := startEnd(t, nil)
	body := fabricBody(t, 1, fabric(t, 5))
	for _, c := range []struct {
		says string
		data []byte
	}{
		{"0x30 of OpenSM's plugin: there is no such message", message(0x30, nil)},
		{"0x81", message(kindWelcome, nil)},
		{"0x2 of OpenSM's plugin: state 9", message(kindState, []byte{9})},
		{"length", message(kindState, nil)},
		{"length", message(kindSweep, []byte{0})},
		{"names generation 1, the latest fabric has 0", message(kindUp, words(1))},
		{"names generation 0", message(kindDiscovered, words(0))},
		{"names generation 2, the latest fabric has 1", append(message(kindFabric, body), message(kindRequest, requestBody(1, 2, 0, time.Second))...)},
		{"generation 1 comes after 1", append(message(kindFabric, body), message(kindFabric, body)...)},
		{"length", message(kindFabric, body[:len(body)-1])},
		{"length", message(kindFabric, append(body[:len(body):len(body)], 0))},
		{"length", message(kindTrap, make([]byte, 15))},
		{"result 4", message(kindOutcome, append(words(1), 4, 0, 0))},
		{"length", message(kindOutcome, append(words(1), 0, 9, 0))},
		{"reason 3", message(kindRouted, []byte{3, 0, 0, 0})},
	} {
		client := f.connect()
		if _, err := client.conn.Write(c.data); err != nil {
			t.Fatal(err)
		}
		gone, ok := (<-f.events).(Disconnected)
		if !ok || !strings.Contains(gone.Err.Error(), c.says) {
			t.Errorf("%+v does not say %q", gone, c.says)
		}
		if _, err := readFrame(client.conn); err == nil {
			t.Errorf("%s: the connection goes on", c.says)
		}
	}
}

// TestEvents sends each message once.
func TestEvents(t *testing.T) {
	f := startEnd(t, nil)
	c := f.connect()
	want := fabric(t, 5)
	at := time.Time{}
	c.send(kindSweep, nil)
	c.send(kindTrap, append([]byte{128, 0, 7, 0, 3, 1, 0, 0}, words(0x300001)...))
	c.send(kindFabric, fabricBody(t, 3, want))
	c.send(kindDiscovered, words(3))
	c.send(kindOutcome, append(words(9), 3, 3, 0, 'w', 'h', 'y'))
	c.send(kindRouted, []byte{2, 1, 4, 0, 'f', 'o', 'r', 's'})
	c.send(kindUp, words(3))
	c.send(kindState, []byte{2})
	c.conn.Close()
	untimed := cmp.Transformer("", func(time.Time) time.Time { return at }) // TestClockStepped looks at them
	sight := Sight{Generation: 3, Fabric: want}
	for _, e := range []Event{SweepStart{at}, Trap{at, TrapLinkState, 0x300001, 7, 3}, Discovered{at, sight}, Outcome{at, 9, Wrong, "why"},
		RoutingDone{at, true, true, "fors"}, SubnetUp{at, sight}, Mastership{at, Standby}} {
		if d := cmp.Diff(e, <-f.events, untimed); d != "" {
			t.Errorf("%T (-want +got):\n%s", e, d)
		}
	}
	if gone := (<-f.events).(Disconnected); !errors.Is(gone.Err, io.EOF) {
		t.Errorf("%+v", gone)
	}
}

// TestClockStepped checks that the times of events are by the monotonic clock, whatever the
// wall clock showed when the plugin sent them.
func TestClockStepped(t *testing.T) {
	f := startEnd(t, nil)
	c := f.connect()
	for _, ahead := range []time.Duration{-time.Hour, -2 * time.Second, 0, 2 * time.Second, time.Hour} {
		before := time.Now()
		if _, err := c.conn.Write(messageAt(before.Add(ahead), kindSweep, nil)); err != nil {
			t.Fatal(err)
		}
		at := (<-f.events).(SweepStart).At
		if after := time.Now(); at.Before(before.Add(-time.Millisecond)) || at.After(after.Add(time.Millisecond)) || !strings.Contains(at.String(), " m=") {
			t.Errorf("sent between %v and %v by a clock %v ahead: happened at %v", before, after, ahead, at)
		}
	}
}

// fabric is a small fabric with LIDs.
func fabric(t testing.TB, lmc uint8) *topology.Fabric {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	fabgen.AssignLIDs(f, lmc)
	f.SM = f.Nodes[0].GUID
	return f
}

// TestSecondServer checks that Listen takes over a socket only if no process listens on it.
func TestSecondServer(t *testing.T) {
	f := startEnd(t, nil)
	if _, err := Listen(Config{Path: f.path}); err == nil || !strings.Contains(err.Error(), "is this program running already?") {
		t.Error(err)
	}
	t.Log(<-f.complaints) // of the probe for a listener
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Path: file}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
	stale := filepath.Join(filepath.Dir(f.path), "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	server, err := Listen(Config{Path: stale})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(stale); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if err := server.Resweep(Reroute); !errors.Is(err, ErrNotConnected) {
		t.Error(err)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := server.Serve(done); err != nil {
		t.Error(err)
	}
}
