package polatis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// endOfMessage ends a message that is not sent in chunks (RFC 6242, section 4.3).
const endOfMessage = "]]>]]>"

// afterHello is a pause before the first request. Some servers (yuma123) lose a request that
// they read together with the hello.
const afterHello = 100 * time.Millisecond

// session is a NETCONF session over SSH.
type session struct {
	conn   net.Conn
	client *ssh.Client
	in     io.Writer
	out    *bufio.Reader
	chunks bool // RFC 6242, section 4.2
	sent   int  // requests
}

// dial begins a session.
func dial(ctx context.Context, address string, config *ssh.ClientConfig) (*session, error) {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	if err := s.begin(ctx, address, config); err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return s, nil
}

func (s *session) begin(ctx context.Context, address string, config *ssh.ClientConfig) error {
	defer s.bound(ctx)()
	c, channels, requests, err := ssh.NewClientConn(s.conn, address, config)
	if err != nil {
		return fmt.Errorf("%w; check username, password_file, key_file and known_hosts", err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	channel, err := s.client.NewSession()
	if err != nil {
		return err
	}
	if s.in, err = channel.StdinPipe(); err != nil {
		return err
	}
	out, err := channel.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReader(out)
	if err := channel.RequestSubsystem("netconf"); err != nil {
		return fmt.Errorf("begin NETCONF: %w", err)
	}
	if err := s.greet(ctx); err != nil {
		return err
	}
	time.Sleep(afterHello)
	return nil
}

// bound limits the I/O of the connection to the timeout of a request and the life of the
// context; the function that it returns removes the limit.
func (s *session) bound(ctx context.Context) func() {
	_ = s.conn.SetDeadline(time.Now().Add(timeout))
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = s.conn.SetDeadline(time.Time{})
		}
	}
}

func (s *session) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	_ = s.conn.Close()
}

// exchange sends a message and reads the reply.
func (s *session) exchange(ctx context.Context, message string) (text []byte, err error) {
	defer s.bound(ctx)()
	began := time.Now()
	framed := message + endOfMessage
	if s.chunks {
		framed = fmt.Sprintf("\n#%d\n%s\n##\n", len(message), message)
	}
	if _, err = io.WriteString(s.in, framed); err == nil {
		if s.chunks {
			text, err = readChunks(s.out)
		} else {
			text, err = readMessage(s.out)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil && time.Since(began) >= timeout:
		err = fmt.Errorf("no answer within %v", timeout)
	case errors.Is(err, io.EOF):
		err = errors.New("the switch ended the session")
	}
	return text, err
}

var errLong = fmt.Errorf("a message is longer than %d bytes", maxAnswer)

// readMessage reads a message up to its end-of-message mark.
func readMessage(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for !bytes.HasSuffix(text, []byte(endOfMessage)) {
		c, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if text = append(text, c); len(text) > maxAnswer {
			return nil, errLong
		}
	}
	return text[:len(text)-len(endOfMessage)], nil
}

// readChunks reads a message in chunks: each after a line "#" with its length, until a
// line "##".
func readChunks(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		var n int
		if c, err := r.ReadByte(); err != nil {
			return nil, err
		} else if c != '\n' {
			return nil, fmt.Errorf("a chunk begins with %q, want a new line", c)
		}
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if string(line) == "##\n" {
			return text, nil
		}
		if k, err := fmt.Sscanf(string(line), "#%d\n", &n); k != 1 || err != nil || n < 1 {
			return nil, fmt.Errorf("a chunk begins with %q, want its length", line)
		}
		if len(text)+n > maxAnswer {
			return nil, errLong
		}
		at := len(text)
		text = append(text, make([]byte, n)...)
		if _, err := io.ReadFull(r, text[at:]); err != nil {
			return nil, err
		}
	}
}
