package ibsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/forsd/forsd/ib"
)

// maxLine is the longest line that ibsim's console reads, in bytes.
const maxLine = 126

// prompt is ibsim's output when it has done a command.
const prompt = "sim> "

// markerStart begins the comments that mark the ends of answers.
const markerStart = "#done "

// console talks to ibsim: commands go into its standard input, and its standard
// output comes back through Write. After each command the console sends a comment,
// which ibsim echoes: once the echo is back, the command is done, and the output
// before it is the answer.
type console struct {
	in  io.Writer
	log *os.File // everything ibsim prints

	turn chan struct{} // holds a token while a command is under way
	sent int           // commands so far

	mu     sync.Mutex
	out    []byte      // printed since the last command was sent
	marker []byte      // the comment that ends the answer; nil between commands
	answer chan string // receives the answer
}

func newConsole(in io.Writer, log *os.File) *console {
	return &console{in: in, log: log, turn: make(chan struct{}, 1)}
}

// Write receives ibsim's output.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.marker != nil {
		c.out = append(c.out, b...)
		if i := bytes.Index(c.out, c.marker); i >= 0 {
			c.answer <- string(c.out[:i])
			c.marker = nil
		}
	}
	return c.log.Write(b)
}

// do sends commands in one write, and waits for the answer to all. gone is
// closed when ibsim has ended.
func (c *console) do(ctx context.Context, gone <-chan struct{}, lines ...string) (string, error) {
	for _, line := range lines {
		if len(line) > maxLine || strings.ContainsAny(line, "\n\x00") {
			return "", fmt.Errorf("ibsim command %q: want one line of at most %d bytes", line, maxLine)
		}
	}
	line := strings.Join(lines, "\n")
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("ibsim command %q: %w", line, context.Cause(ctx))
	}
	c.sent++
	marker := markerStart + strconv.Itoa(c.sent)
	answer := c.expect(marker + prompt)
	if _, err := io.WriteString(c.in, line+"\n"+marker+"\n"); err != nil {
		return "", fmt.Errorf("ibsim command %q: %w", line, err)
	}
	select {
	case text := <-answer:
		return trimAnswer(text), nil
	case <-gone:
		return "", fmt.Errorf("ibsim command %q: %w", line, errGone)
	case <-ctx.Done():
		return "", fmt.Errorf("ibsim command %q: %w", line, context.Cause(ctx))
	}
}

// trimAnswer removes from an answer the prompts around it, and late output of commands
// that were given up.
func trimAnswer(text string) string {
	if i := strings.LastIndex(text, markerStart); i >= 0 {
		_, text, _ = strings.Cut(text[i:], prompt)
	}
	for strings.HasPrefix(text, prompt) {
		text = text[len(prompt):]
	}
	for strings.HasSuffix(text, prompt) {
		text = text[:len(text)-len(prompt)]
	}
	return strings.TrimSpace(text)
}

// expect makes Write deliver the output before marker.
func (c *console) expect(marker string) <-chan string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out, c.marker = c.out[:0], []byte(marker)
	c.answer = make(chan string, 1)
	return c.answer
}

var errGone = errors.New("the simulation has ended")

// Command sends one line to ibsim's console, waits until it is done, and returns
// ibsim's output, which includes errors. ibsim's command Help lists its commands.
func (s *Sim) Command(ctx context.Context, line string) (string, error) {
	return s.console.do(ctx, s.ibsim.done, line)
}

// Unlink pulls the cable out of a port of a node, named by description or GUID.
// ibsim sends trap 128 for every switch at its ends.
func (s *Sim) Unlink(ctx context.Context, node string, port int) error {
	return s.act(ctx, "Unlink", node, port)
}

// Relink puts back the cable that Unlink or UnlinkNode pulled out of a port.
func (s *Sim) Relink(ctx context.Context, node string, port int) error {
	return s.act(ctx, "ReLink", node, port)
}

// Port names a port of a node, which is named by description or GUID.
type Port struct {
	Node string
	Port int
}

// UnlinkAll pulls the cables out of several ports at once: ibsim gets all the
// commands in one write, and OpenSM the traps within a millisecond.
func (s *Sim) UnlinkAll(ctx context.Context, ports []Port) error {
	return s.actAll(ctx, "Unlink", ports)
}

// RelinkAll puts back at once the cables that UnlinkAll pulled.
func (s *Sim) RelinkAll(ctx context.Context, ports []Port) error {
	return s.actAll(ctx, "ReLink", ports)
}

// UnlinkNode pulls every cable of a node: the node dies.
func (s *Sim) UnlinkNode(ctx context.Context, node string) error {
	return s.act(ctx, "Unlink", node, 0)
}

// RelinkNode puts back every cable of a node that has been pulled.
func (s *Sim) RelinkNode(ctx context.Context, node string) error {
	return s.act(ctx, "ReLink", node, 0)
}

// Link plugs a cable into two free ports; with Unlink it moves a cable.
func (s *Sim) Link(ctx context.Context, nodeA string, portA int, nodeB string, portB int) error {
	b, err := s.nodeID(nodeB)
	if err != nil {
		return err
	}
	return s.act(ctx, "Link", nodeA, portA, fmt.Sprintf("\"%s\"[%d]", b, portB))
}

// SetGUID gives a node another GUID, and an adapter's port p the GUID guid+p,
// without a trap. Further calls name the node by its description or old GUID.
func (s *Sim) SetGUID(ctx context.Context, node string, guid ib.GUID) error {
	return s.act(ctx, "Guid", node, 0, guid.String())
}

// ReplaceAdapter swaps a host's adapter for a new one with another GUID: the
// cables are pulled, LIDs and GUIDs change, the cables are plugged in again.
func (s *Sim) ReplaceAdapter(ctx context.Context, node string, guid ib.GUID) error {
	if err := s.act(ctx, "Clear", node, 0); err != nil {
		return err
	}
	if err := s.SetGUID(ctx, node, guid); err != nil {
		return err
	}
	return s.RelinkNode(ctx, node)
}

// SetCounter sets a counter of a port, such as PortCounters.SymbolErrorCounter.
func (s *Sim) SetCounter(ctx context.Context, node string, port int, field string, value uint64) error {
	line, err := s.line("PerformanceSet", node, port)
	if err != nil {
		return err
	}
	said, err := s.console.do(ctx, s.ibsim.done, fmt.Sprintf("%s %s=%d", line, field, value))
	if err == nil && !strings.HasSuffix(said, fmt.Sprintf("has been set to %d", value)) {
		err = fmt.Errorf("ibsim: set counter %s of %s port %d: %s", field, node, port, said)
	}
	return err
}

// act sends a command about a node, or about one of its ports if port is not 0.
// Such commands are silent when they succeed.
func (s *Sim) act(ctx context.Context, verb, node string, port int, args ...string) error {
	line, err := s.line(verb, node, port)
	if err != nil {
		return err
	}
	return s.silent(ctx, strings.Join(append([]string{line}, args...), " "))
}

// actAll sends a command about each port, all in one write.
func (s *Sim) actAll(ctx context.Context, verb string, ports []Port) error {
	lines := make([]string, len(ports))
	for i, p := range ports {
		var err error
		if lines[i], err = s.line(verb, p.Node, p.Port); err != nil {
			return err
		}
	}
	return s.silent(ctx, lines...)
}

// line is a command about a node, or about one of its ports if port is not 0.
func (s *Sim) line(verb, node string, port int) (string, error) {
	id, err := s.nodeID(node)
	if err != nil {
		return "", fmt.Errorf("ibsim %s: %w", verb, err)
	}
	line := fmt.Sprintf("%s \"%s\"", verb, id)
	if port != 0 {
		line += fmt.Sprintf("[%d]", port)
	}
	return line, nil
}

// silent sends commands that ibsim answers only with complaints.
func (s *Sim) silent(ctx context.Context, lines ...string) error {
	said, err := s.console.do(ctx, s.ibsim.done, lines...)
	if err == nil && said != "" {
		err = fmt.Errorf("ibsim command %q: %s", strings.Join(lines, "\n"), said)
	}
	return err
}

// detach frees the place of a client that was killed and so could not detach itself;
// ibsim has ten. A failure does no harm: ibsim then finds out itself at the next
// packet for the client.
func (s *Sim) detach(pid int) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	_ = s.detachIf(ctx, func(its int) bool { return its == pid })
}

// DetachDead frees the places of all clients whose processes have ended, for
// those that the simulation has not started itself.
func (s *Sim) DetachDead(ctx context.Context) error {
	return s.detachIf(ctx, func(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// detachIf frees the places of the clients whose process IDs gone accepts.
func (s *Sim) detachIf(ctx context.Context, gone func(pid int) bool) error {
	clients, err := s.Command(ctx, "Attached")
	if err != nil {
		return err
	}
	for line := range strings.Lines(clients) {
		var client, pid int
		if n, _ := fmt.Sscanf(line, "Client %d: pid %d ", &client, &pid); n == 2 && gone(pid) {
			if _, err := s.Command(ctx, "X "+strconv.Itoa(client)); err != nil {
				return err
			}
		}
	}
	return nil
}
