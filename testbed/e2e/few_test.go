package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fewDescriptors is how many forsd may have in TestFewDescriptors.
const fewDescriptors = 256

// TestFewDescriptors gives forsd 256 descriptors, and opens 400 connections that wait for the
// next plan. A cable is pulled, and put back: plans are published and tables reach the switches,
// by the plugin and by files, and forsd restarts while the connections stay.
func TestFewDescriptors(t *testing.T) {
	t.Run("plugin", func(t *testing.T) { few(t, byPlugin(t, small())) })
	t.Run("files", func(t *testing.T) { few(t, small()) })
}

// overTCP makes forsd listen on an address, too.
func (o *Options) overTCP(t *testing.T) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	_ = free.Close()
	o.Config = fmt.Sprintf("  listen: %q\n%s", address, steady) // below api:
	return address
}

func few(t *testing.T, o Options) {
	address := o.overTCP(t)
	x := newSite(t, 4*time.Minute, o)
	limited := filepath.Join(x.Dir(), "limited")
	x.ok(os.WriteFile(limited, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", fewDescriptors, x.options.Forsd), 0o755))
	x.options.Forsd = limited
	x.ok(x.Start(x.ctx))
	x.settled(nil)
	healthy := x.check()
	broken := false
	x.idlers(address, 400)
	for range 2 {
		state := x.toggle(healthy, 2, 1, &broken)
		x.settled(Cable(2, 1, state))
		x.check()
	}
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	x.settled(nil)
	x.idlers(address, 400)
	x.settled(Cable(2, 1, x.toggle(healthy, 2, 1, &broken)))
	x.check()
	x.noRoutingErrors()
}

// idlers opens connections over TCP that wait for the next plan. Some have to wait, others
// have to be refused, and forsd has to keep a part of its descriptors.
func (x *test) idlers(address string, n int) {
	x.Helper()
	st := x.settled(nil)
	held, refused := 0, 0
	for range n {
		c, err := net.Dial("tcp", address)
		x.ok(err)
		x.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=300\r\nIf-None-Match: \"%d\"\r\n\r\n", st.Epoch)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		switch line, err := bufio.NewReader(c).ReadString('\n'); {
		case strings.HasPrefix(line, "HTTP/1.1 503"):
			refused++
		case line == "" && err != nil && err != io.EOF:
			held++
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.Forsd.PID()))
	x.ok(err)
	x.Logf("%d connections wait, %d are refused; forsd has %d descriptors of %d", held, refused, len(files), fewDescriptors)
	if held == 0 || refused == 0 || len(files) > fewDescriptors-64 {
		x.Errorf("%d connections wait, %d are refused; forsd has %d descriptors of %d: want 64 for its own work", held, refused, len(files), fewDescriptors)
	}
}

// hostileMB limits the peak memory of forsd in TestHostileClients: some 130 MB on this fabric,
// 32 MiB of bodies, and garbage that the collector has not freed yet.
const hostileMB = 350

// TestHostileClients has 300 clients ask for the tables and read nothing, 50 send the beginning
// of a large body, and eight send all of it. forsd's memory stays bounded, and a cable that is
// pulled during that leaves the plan and the tables.
func TestHostileClients(t *testing.T) {
	o := byPlugin(t, lhcb())
	address := o.overTCP(t)
	x, healthy := up(t, 5*time.Minute, o)
	send := func(network, address string, parts ...string) {
		c, err := net.Dial(network, address)
		x.ok(err)
		x.Cleanup(func() { _ = c.Close() })
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		for _, p := range parts {
			_, _ = io.WriteString(c, p) // it may be refused before the end
		}
	}
	const large = 15 << 20
	post := fmt.Sprintf("POST /v1/gpu/lanes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", large)
	for range 300 {
		send("tcp", address, "GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for range 8 {
		send("unix", x.Socket(), post, strings.Repeat(" ", large))
	}
	for range 50 {
		send("unix", x.Socket(), post, strings.Repeat(" ", 256<<10))
	}
	broken := false
	st := x.settled(Cable(2, 1, x.toggle(healthy, 2, 1, &broken)))
	x.check()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.Forsd.PID()))
	x.ok(err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb := 0
	_, err = fmt.Sscan(rest, &kb)
	x.ok(err)
	t.Logf("forsd has had %d MB; the plan came after %.1f ms, the tables after %.1f ms", kb/1024, 1e3*st.LastEvent.PublishedSeconds, 1e3*st.LastEvent.ProgrammedSeconds)
	if kb/1024 > hostileMB {
		t.Errorf("forsd has had %d MB, want at most %d", kb/1024, hostileMB)
	}
}
