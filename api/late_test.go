package api

import (
	"net"
	"os/exec"
	"testing"
	"time"
)

// TestLateAddress listens on an address that the machine gets afterwards.
func TestLateAddress(t *testing.T) {
	if err := exec.Command("ip", "link", "show", "lo").Run(); err != nil {
		t.Skip("there is no ip command to give this machine an address")
	}
	const addr = "192.0.2.77" // for documentation, so nobody's
	l, err := listenTCP(addr+":0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
	if _, err := listenTCP("127.0.0.1:1-2", nil); err == nil {
		t.Error("what is no address is taken for one that comes later")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := listenTCP(taken.Addr().String(), nil); err == nil {
		t.Error("an address that another process has is taken for one that comes later")
	}
	if l, err = listenTCP(addr+":0", nil); err != nil {
		t.Fatal(err)
	}
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
