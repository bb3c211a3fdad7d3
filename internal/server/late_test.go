package server

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTakenAddress listens on an address that another program has, once that has given it up.
func TestTakenAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := taken.Addr().String()
	if err := CanListen(addr); err == nil || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Errorf("a taken address can be listened on: %v", err)
	}
	notes := make(chan error, 10)
	l := listenTCP(addr, func(err error) { notes <- err })
	defer l.Close()
	if err := <-notes; err == nil || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Errorf("a taken address: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CanListen(addr); err != nil {
		t.Error(err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	if err := <-notes; err != nil {
		t.Errorf("it does not listen: %v", err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

// TestLateAddress listens on an address that the machine gets afterwards.
func TestLateAddress(t *testing.T) {
	if err := exec.Command("ip", "link", "show", "lo").Run(); err != nil {
		t.Skip("there is no ip command to give this machine an address")
	}
	const addr = "192.0.2.77" // for documentation, so without an owner
	unnoted := func(error) {}
	l := listenTCP(addr+":0", unnoted)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
	l = listenTCP(addr+":0", unnoted)
	defer l.Close()
	if err := exec.Command("ip", "address", "add", addr+"/32", "dev", "lo").Run(); err != nil {
		t.Skip("this process may not give the machine an address")
	}
	defer func() { _ = exec.Command("ip", "address", "del", addr+"/32", "dev", "lo").Run() }()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	for l.Addr().(*net.TCPAddr).Port == 0 {
		time.Sleep(10 * time.Millisecond)
		select {
		case err := <-accepted:
			t.Fatal(err)
		default:
		}
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}
