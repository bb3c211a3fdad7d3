package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestMain writes to a private journal if TestProtocol started the process.
func TestMain(m *testing.M) {
	if os.Getenv("FORSD_TEST_JOURNAL") != "" {
		if err := alone(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone acts as journald in a private /run, invisible to other processes, and prints the
// entries it receives.
func alone() error {
	err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("run", "/run", "tmpfs", 0, ""), os.MkdirAll("/run/systemd/journal", 0o755))
	if err != nil {
		return err
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "/run/systemd/journal/socket", Net: "unixgram"})
	if err != nil {
		return err
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(2, &stat); err != nil {
		return err
	}
	before := Connected()
	if err := os.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)); err != nil { // as set by systemd
		return err
	}
	if before || !Connected() {
		return fmt.Errorf("connected without a stream: %v, with one: %v", before, Connected())
	}
	log := zap.New(New(zapcore.InfoLevel, NewQueue(os.Stderr), zapcore.NewNopCore()))
	log.Warn("Cables are down", zap.String("code", "cable-down"), zap.String("severity", "degraded"), zap.String("text", "Leaf007 port 31\nLeaf008 port 31"))
	log.With(zap.Uint64("epoch", 42)).Info("published")
	log.Info("ordered", zap.String("order", "reroute"), zap.String("user", "anna"), zap.Uint32("uid", 1000), zap.String("process", "forsctl"), zap.Int32("pid", 4711))
	log.Error("The plan could not be stored", zap.String("severity", "critical"), zap.String("text", strings.Repeat("x", 300_000))) // too long for a datagram
	var all []map[string]string
	for range 4 {
		entry, err := receive(socket)
		if err != nil {
			return err
		}
		all = append(all, entry)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// receive reads an entry in journald's native protocol: fields in a datagram, or in a file that
// is passed with an empty datagram.
func receive(socket *net.UnixConn) (map[string]string, error) {
	data, rights := make([]byte, 1<<20), make([]byte, 64)
	if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	n, r, _, _, err := socket.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	data = data[:n]
	if r > 0 {
		messages, err := syscall.ParseSocketControlMessage(rights[:r])
		if err != nil {
			return nil, err
		}
		fds, err := syscall.ParseUnixRights(&messages[0])
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fds[0]), "entry")
		defer f.Close()
		var file bytes.Buffer
		if _, err := file.ReadFrom(&offset{f: f}); err != nil {
			return nil, err
		}
		data = file.Bytes()
	}
	entry := map[string]string{}
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if name, value, simple := strings.Cut(string(line), "="); simple {
			entry[name], data = value, rest
			continue
		}
		length := binary.LittleEndian.Uint64(rest)
		entry[string(line)], data = string(rest[8:8+length]), rest[8+length+1:]
	}
	return entry, nil
}

// offset reads a file from its beginning, whatever its current position.
type offset struct {
	f  *os.File
	at int64
}

func (o *offset) Read(b []byte) (int, error) {
	n, err := o.f.ReadAt(b, o.at)
	o.at += int64(n)
	return n, err
}

// TestProtocol writes to a private journal, in a process with a private /run.
func TestProtocol(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "FORSD_TEST_JOURNAL=1", "JOURNAL_STREAM=")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &complaints)
	}
	var got []map[string]string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{
		{"MESSAGE": "Cables are down: Leaf007 port 31\nLeaf008 port 31 (code=cable-down, severity=degraded)", "PRIORITY": "4", "FORSD_CODE": "cable-down", "FORSD_SEVERITY": "degraded", "FORSD_TEXT": "Leaf007 port 31\nLeaf008 port 31"},
		{"MESSAGE": "published (epoch=42)", "PRIORITY": "6", "FORSD_EPOCH": "42"},
		{"MESSAGE": "ordered (order=reroute, user=anna, uid=1000, process=forsctl, pid=4711)", "PRIORITY": "6", "FORSD_ORDER": "reroute", "FORSD_USER": "anna", "FORSD_UID": "1000", "FORSD_PROCESS": "forsctl", "FORSD_PID": "4711"},
		{"MESSAGE": "The plan could not be stored: " + strings.Repeat("x", 300_000) + " (severity=critical)", "PRIORITY": "2", "FORSD_SEVERITY": "critical", "FORSD_TEXT": strings.Repeat("x", 300_000)},
	}
	for i := range want {
		want[i]["SYSLOG_IDENTIFIER"] = "forsd"
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%.2000s", d)
	}
}
