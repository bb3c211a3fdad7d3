package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// greeting is the first line of the guest's agent after each boot.
const greeting = "#agent"

// guest is a virtual machine with Debian, and the shell of its agent, at the other end of a
// virtual serial port. Its disk forgets everything when it ends.
type guest struct {
	qemu    *exec.Cmd
	ended   chan error
	conn    net.Conn
	lines   chan string
	count   int
	Console string // path of the machine's output
	Accel   string // its accelerator: KVM, or software
}

// bootLimit is the time that a boot may take; see guest.within.
const bootLimit = 10 * time.Minute

// probeLimit is the time that a kernel under KVM may take to its first lines: on some
// machines /dev/kvm opens and runs no guest.
const probeLimit = 8 * time.Second

// within bounds a wait by the time that the guest's processors have run or been idle: time
// that they waited for a processor of a busy machine does not count.
func (g *guest) within(ctx context.Context, limit time.Duration, format string, args ...any) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun, before := time.Now(), g.delayed()
	go func() {
		for ctx.Err() == nil {
			if left := limit - time.Since(begun) + g.delayed() - before; left > 0 {
				select {
				case <-time.After(left):
				case <-ctx.Done():
				}
				continue
			}
			cancel(fmt.Errorf(format, args...))
		}
	}()
	return ctx, func() { cancel(nil) }
}

// delayed is how long the guest's most delayed thread has waited for a processor.
func (g *guest) delayed() (most time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", g.qemu.Process.Pid))
	for _, path := range threads {
		var ran, waited time.Duration // in nanoseconds
		data, _ := os.ReadFile(path)
		_, _ = fmt.Sscan(string(data), &ran, &waited)
		most = max(most, waited)
	}
	return most
}

// accelerators are QEMU's options by which a guest can run, the best first.
func accelerators() [][]string {
	software := []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		return [][]string{{"-accel", "kvm", "-cpu", "host"}, {"-accel", "kvm", "-cpu", "host,-arch-capabilities"}, software}
	}
	return [][]string{software}
}

// startGuest boots the image with a second, read-only disk, and returns when the agent
// greets. dir receives the console and the agent's socket.
func startGuest(ctx context.Context, image, data, dir string) (*guest, error) {
	var last error
	for _, accel := range accelerators() {
		g, err := launch(ctx, image, data, dir, accel)
		if err != nil {
			return nil, err
		}
		if accel[1] != "kvm" || g.alive(ctx) {
			if last = g.greeted(ctx); last == nil {
				return g, nil
			}
		}
		g.kill()
	}
	return nil, last
}

// launch starts QEMU. The kernel ends it with the thread that started it, so the caller must
// be on one that lasts.
func launch(ctx context.Context, image, data, dir string, accel []string) (*guest, error) {
	g := &guest{ended: make(chan error, 1), lines: make(chan string, 1024), Console: filepath.Join(dir, "console"), Accel: strings.Join(accel, " ")}
	socket := filepath.Join(dir, "agent.sock")
	_ = os.Remove(socket)
	args := append([]string{"-machine", "q35", "-smp", "2", "-m", "2048", "-display", "none", "-nic", "none", "-monitor", "none", "-snapshot",
		"-kernel", filepath.Join(image, "vmlinuz"), "-initrd", filepath.Join(image, "initrd.img"),
		"-append", "root=LABEL=forsd-root systemd.default_device_timeout_sec=1h systemd.default_timeout_start_sec=1h console=ttyS0 loglevel=6 systemd.show_status=auto systemd.log_color=0",
		"-drive", "format=raw,if=virtio,file=" + filepath.Join(image, "disk.img"), "-drive", "format=raw,if=virtio,file=" + data,
		"-device", "virtio-serial-pci", "-chardev", "socket,id=agent,server=on,wait=off,path=" + socket, "-device", "virtserialport,chardev=agent,name=agent",
		"-serial", "file:" + g.Console}, accel...)
	g.qemu = exec.Command("qemu-system-x86_64", args...)
	g.qemu.Stderr = os.Stderr
	if accel[1] == "kvm" {
		g.qemu.Stderr = nil // another accelerator is tried then
	}
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := g.qemu.Start(); err != nil {
		return nil, fmt.Errorf("start the guest: %w", err)
	}
	go func() { g.ended <- g.qemu.Wait() }()
	for g.conn == nil && ctx.Err() == nil {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			g.conn = conn
			go g.read()
			break
		}
		if g.gone() {
			close(g.lines)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return g, ctx.Err()
}

// gone reports whether QEMU has ended.
func (g *guest) gone() bool { return len(g.ended) > 0 }

// alive waits until the kernel has printed something.
func (g *guest) alive(ctx context.Context) bool {
	ctx, cancel := g.within(ctx, probeLimit, "the kernel did not start within %s", probeLimit)
	defer cancel()
	for ; ctx.Err() == nil && !g.gone(); time.Sleep(200 * time.Millisecond) {
		if data, _ := os.ReadFile(g.Console); strings.Contains(string(data), "Linux version") {
			return true
		}
	}
	return false
}

// kill ends the guest at once.
func (g *guest) kill() {
	_ = syscall.Kill(-g.qemu.Process.Pid, syscall.SIGKILL)
	g.ended <- <-g.ended
	if g.conn != nil {
		g.conn.Close()
	}
}

func (g *guest) read() {
	in := bufio.NewReader(g.conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			close(g.lines)
			return
		}
		g.lines <- strings.TrimRight(line, "\r\n")
	}
}

// line is the agent's next line.
func (g *guest) line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-g.lines:
		if !ok {
			return "", errors.New("the guest has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%w: the console is in %s", context.Cause(ctx), g.Console)
	}
}

// greeted waits until the agent is there after a boot.
func (g *guest) greeted(ctx context.Context) error {
	ctx, cancel := g.within(ctx, bootLimit, "the guest's agent did not answer within %s", bootLimit)
	defer cancel()
	for {
		line, err := g.line(ctx)
		if err != nil {
			return err
		}
		if line == greeting {
			return nil
		}
	}
}

// failed is a command of the guest that ended with another code than 0.
type failed struct {
	script, out string
	code        string
}

func (f *failed) Error() string {
	return fmt.Sprintf("%q ends with code %s:\n%s", f.script, f.code, f.out)
}

// run runs a script in the guest's shell, and returns its output. It fails with *failed if
// the script ends with another code than 0.
func (g *guest) run(ctx context.Context, limit time.Duration, script string) (string, error) {
	ctx, cancel := g.within(ctx, limit, "%q did not end within %s", script, limit)
	defer cancel()
	g.count++
	end := fmt.Sprintf("#end %d ", g.count)
	if _, err := fmt.Fprintf(g.conn, "bash -c \"$(cat <<'#script'\n%s\n#script\n)\" </dev/null 2>&1; printf '\\n%s%%s\\n' $?\n", script, end); err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		line, err := g.line(ctx)
		if err != nil {
			return out.String(), err
		}
		if code, ok := strings.CutPrefix(line, end); ok {
			text := strings.TrimRight(out.String(), "\n")
			if code != "0" {
				return text, &failed{script, text, code}
			}
			return text, nil
		}
		out.WriteString(line + "\n")
	}
}

// reboot restarts the guest's system in an orderly way, and waits for the agent.
func (g *guest) reboot(ctx context.Context) error {
	if _, err := g.conn.Write([]byte("systemctl reboot\n")); err != nil {
		return err
	}
	return g.greeted(ctx)
}
