package polatis

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/forsd/forsd/optical/driver"
)

// module is the part of the YANG module that the driver uses, for eight ports per side.
const module = `module optical-switch {
  namespace "http://www.polatis.com/yang/optical-switch";
  prefix opsw;
  revision 2020-01-01;
  container cross-connects {
    list pair {
      key "ingress";
      unique "egress";
      leaf ingress { type uint32 { range "1..8"; } }
      leaf egress { type uint32 { range "9..16"; } mandatory true; }
    }
  }
}
`

// write writes a temporary file and returns its path.
func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newKey makes an SSH key.
func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// server is an SSH server whose subsystem netconf is a function.
type server struct {
	entry  driver.Entry // leads to it
	listen net.Listener
}

// serveSSH starts the server, for user "admin" with password "secret" or a key.
func serveSSH(t *testing.T, netconf func(ssh.Channel, net.Addr)) *server {
	t.Helper()
	host, _ := newKey(t)
	client, private := newKey(t)
	config := &ssh.ServerConfig{
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if c.User() != "admin" || string(password) != "secret" {
				return nil, errors.New("who are you")
			}
			return nil, nil
		},
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if c.User() != "admin" || string(key.Marshal()) != string(client.PublicKey().Marshal()) {
				return nil, errors.New("who are you")
			}
			return nil, nil
		},
	}
	config.AddHostKey(host)
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listen.Close() })
	go func() {
		for {
			conn, err := listen.Accept()
			if err != nil {
				return
			}
			go serveConn(conn, config, netconf)
		}
	}()
	dir := t.TempDir()
	address := listen.Addr().String()
	return &server{listen: listen, entry: driver.Entry{
		Name: "one", Driver: driver.PolatisNetconf, URL: "ssh://" + address, Username: "admin",
		PasswordFile: write(t, dir, "password", []byte("secret\n")),
		KeyFile:      write(t, dir, "key", private),
		KnownHosts:   write(t, dir, "known_hosts", []byte(knownhosts.Line([]string{address}, host.PublicKey())+"\n")),
	}}
}

func serveConn(conn net.Conn, config *ssh.ServerConfig, netconf func(ssh.Channel, net.Addr)) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, asked, err := c.Accept()
		if err != nil {
			return
		}
		for r := range asked {
			ok := r.Type == "subsystem" && string(r.Payload[4:]) == "netconf"
			_ = r.Reply(ok, nil)
			if ok {
				netconf(channel, conn.RemoteAddr())
				_ = channel.Close()
				return
			}
		}
	}
}

// netconfd runs Debian's NETCONF server with the module, and an SSH server before it.
func netconfd(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "optical-switch.yang", []byte(module))
	socket := filepath.Join(dir, "ncx.sock")
	log := filepath.Join(dir, "log")
	said := func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	port := 0
	s := serveSSH(t, func(c ssh.Channel, from net.Addr) {
		cmd := exec.Command("/usr/sbin/netconf-subsystem", fmt.Sprintf("--ncxserver-sockname=%d@%s", port, socket))
		peer, peerPort, _ := net.SplitHostPort(from.String())
		cmd.Env = append(os.Environ(), "USER="+userName(), fmt.Sprintf("SSH_CONNECTION=%s %s 127.0.0.1 %d", peer, peerPort, port), "SSH_CLIENT="+peer+" "+peerPort+" "+fmt.Sprint(port))
		in, err := cmd.StdinPipe()
		if err != nil {
			return
		}
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		defer func() { _ = cmd.Wait() }()
		defer func() { _ = in.Close() }()
		// While a session begins, netconfd loses data that it reads together with the
		// previous message: send its hello first, then the client's, then the rest.
		if err := passHello(c, bufio.NewReader(out)); err != nil {
			return
		}
		rest, active := bufio.NewReader(c), strings.Count(said(), "now active")
		if err := passHello(in, rest); err != nil {
			return
		}
		for strings.Count(said(), "now active") == active {
			time.Sleep(5 * time.Millisecond)
		}
		go func() {
			_, _ = io.Copy(in, rest)
			_ = in.Close()
		}()
		_, _ = io.Copy(c, out)
	})
	port = s.listen.Addr().(*net.TCPAddr).Port
	cmd := exec.Command("/usr/sbin/netconfd", fmt.Sprintf("--port=%d", port), "--modpath="+dir+":/usr/share/yuma/modules", "--module=optical-switch",
		"--target=running", "--superuser="+userName(), "--no-startup", "--ncxserver-sockname="+socket, "--log="+log)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("netconfd says:\n%s", said())
		}
	})
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("netconfd does not listen:\n%s", said())
	return nil
}

// passHello forwards one message that is not in chunks, and nothing more, so that the
// readers of hellos read nothing else.
func passHello(to io.Writer, from *bufio.Reader) error {
	text, err := readMessage(from)
	if err == nil {
		_, err = io.WriteString(to, string(text)+endOfMessage)
	}
	return err
}

func open(t *testing.T, e *driver.Entry) driver.Switch {
	t.Helper()
	sw, err := Open(e)
	if err != nil {
		t.Fatal(err)
	}
	return sw
}

// TestNetconf drives netconfd, a NETCONF server that loads the module's YANG text, with a
// key and with a password.
func TestNetconf(t *testing.T) {
	s := netconfd(t)
	withKey, withPassword := s.entry, s.entry
	withKey.PasswordFile, withPassword.KeyFile = "", ""
	for _, e := range []*driver.Entry{&withKey, &withPassword} {
		changes(t, open(t, e))
	}
}

// userName is the name of the user that runs the test.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

// hi begins a session of a server.
const hi = `<hello xmlns="` + base + `"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>` + endOfMessage

// TestNetconfRefusals lets the server refuse the user, have another host key, or send garbage.
func TestNetconfRefusals(t *testing.T) {
	says := func(text ...string) func(ssh.Channel, net.Addr) {
		return func(c ssh.Channel, _ net.Addr) {
			in := bufio.NewReader(c)
			for _, answer := range text {
				if _, err := readMessage(in); err != nil {
					return
				}
				_, _ = io.WriteString(c, answer)
			}
		}
	}
	stays := func(text ...string) func(ssh.Channel, net.Addr) {
		return func(c ssh.Channel, from net.Addr) {
			says(text...)(c, from)
			_, _ = io.Copy(io.Discard, c)
		}
	}
	same := func(*driver.Entry) {}
	other := serveSSH(t, says(hi))
	for _, c := range []struct {
		netconf func(ssh.Channel, net.Addr)
		spoil   func(e *driver.Entry)
		want    string
	}{
		{says(hi), func(e *driver.Entry) { e.KeyFile, e.Username = "", "nobody" }, "check username, password_file, key_file and known_hosts"},
		{says(hi), func(e *driver.Entry) { e.KnownHosts = other.entry.KnownHosts }, "known_hosts"},
		{says("220 mail.example ESMTP" + endOfMessage), same, "this is not a NETCONF server"},
		{says(), same, "the switch ended the session"},
		{says(hi), same, "the switch ended the session"},
		{says(hi, "<rpc-reply"+endOfMessage), same, "XML syntax error"},
		{says(hi, `<rpc-reply message-id="7" xmlns="`+base+`"><ok/></rpc-reply>`+endOfMessage), same, `the reply has message-id "7", want 1`},
		{says(hi, `<rpc-reply message-id="1" xmlns="`+base+`"><rpc-error><error-severity>error</error-severity><error-tag>in-use</error-tag><error-message> port 9 is dark </error-message></rpc-error></rpc-reply>`+endOfMessage), same, "the switch answers in-use port 9 is dark"},
		{stays(hi, strings.Repeat(" ", maxAnswer)+endOfMessage), same, "longer than"},
		{stays(strings.Replace(hi, "1.0</cap", "1.1</cap", 1) + "\n#0\n\n##\n"), same, "want its length"},
	} {
		e := serveSSH(t, c.netconf).entry
		c.spoil(&e)
		sw := open(t, &e)
		if _, err := sw.Connected(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, spoil := range []func(e *driver.Entry){
		func(e *driver.Entry) { e.KeyFile += "x" },
		func(e *driver.Entry) { e.KeyFile = e.PasswordFile },
		func(e *driver.Entry) { e.PasswordFile += "x" },
		func(e *driver.Entry) { e.KnownHosts += "x" },
		func(e *driver.Entry) { e.URL = "https://192.0.2.1" },
	} {
		bad := other.entry
		spoil(&bad)
		if _, err := Open(&bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestNetconfEnds lets a server close each session after a reply: Connected opens a new one.
func TestNetconfEnds(t *testing.T) {
	s := serveSSH(t, func(c ssh.Channel, _ net.Addr) {
		in := bufio.NewReader(c)
		for _, answer := range []string{hi, `<rpc-reply message-id="1" xmlns="` + base + `"><data/></rpc-reply>` + endOfMessage} {
			if _, err := readMessage(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, answer)
		}
	})
	sw := open(t, &s.entry)
	for n := range 3 {
		if _, err := sw.Connected(t.Context()); err != nil {
			t.Errorf("session %d: %v", n, err)
		}
	}
}

// TestNetconfHangs uses a server that sends nothing: a request ends with its context.
func TestNetconfHangs(t *testing.T) {
	e := serveSSH(t, func(c ssh.Channel, _ net.Addr) { _, _ = io.Copy(io.Discard, c) }).entry
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("the user gave up"))
	defer cancel()
	if _, err := open(t, &e).Connected(ctx); err == nil || !strings.Contains(err.Error(), "the user gave up") {
		t.Errorf("%v, want that the user gave up", err)
	}
}
