package polatis

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/forsd/forsd/optical/driver"
)

const (
	base      = "urn:ietf:params:xml:ns:netconf:base:1.0"
	namespace = "http://www.polatis.com/yang/optical-switch"
	sshPort   = "830" // RFC 6242, section 3
)

// Netconf is a switch that is driven by NETCONF (RFC 6241) over SSH (RFC 6242). A change is
// one request, which the switch executes atomically.
type Netconf struct {
	address string
	config  *ssh.ClientConfig
	session *session // nil until the first request, and after an error
}

// openNetconf makes the driver of an entry of a site.
func openNetconf(e *driver.Entry) (*Netconf, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" || u.Path != "" {
		return nil, fmt.Errorf("%q is not an address of a switch by NETCONF: want for instance ssh://192.0.2.1:830", e.URL)
	}
	port := u.Port()
	if port == "" {
		port = sshPort
	}
	config := &ssh.ClientConfig{User: e.Username, Timeout: timeout}
	if config.HostKeyCallback, err = knownhosts.New(e.KnownHosts); err != nil {
		return nil, fmt.Errorf("read the host keys of switch %s (known_hosts): %w", e.Name, err)
	}
	if e.KeyFile != "" {
		data, err := os.ReadFile(e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the key for switch %s: %w", e.Name, err)
		}
		key, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, fmt.Errorf("%s is not a private key for switch %s: %w", e.KeyFile, e.Name, err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(key))
	}
	if e.PasswordFile != "" {
		password, err := readPassword(e)
		if err != nil {
			return nil, err
		}
		config.Auth = append(config.Auth, ssh.Password(password))
	}
	return &Netconf{address: net.JoinHostPort(u.Hostname(), port), config: config}, nil
}

// edit is a cross-connect in a request.
type edit struct {
	Operation string `xml:"urn:ietf:params:xml:ns:netconf:base:1.0 operation,attr"`
	Ingress   int    `xml:"ingress"`
	Egress    int    `xml:"egress,omitempty"`
}

// crossConnects is the container of the module optical-switch.
type crossConnects struct {
	XMLName xml.Name `xml:"http://www.polatis.com/yang/optical-switch cross-connects"`
	Edits   []edit   `xml:"pair"`
}

// Connected lists the current cross-connects. The switch may have closed the session, so
// Connected tries a new one as well: the request changes nothing.
func (n *Netconf) Connected(ctx context.Context) ([]driver.Pair, error) {
	const get = `<get-config><source><running/></source><filter type="subtree"><cross-connects xmlns="` + namespace + `"/></filter></get-config>`
	again := n.session != nil
	answer, err := n.request(ctx, get)
	if err != nil && again && n.session == nil && ctx.Err() == nil {
		answer, err = n.request(ctx, get)
	}
	if err != nil {
		return nil, fmt.Errorf("read the cross-connects: %w", err)
	}
	pairs := make([]driver.Pair, len(answer.Pairs))
	for i, p := range answer.Pairs {
		pairs[i] = driver.Pair(p)
	}
	return pairs, nil
}

// Change removes and makes cross-connects in one request.
func (n *Netconf) Change(ctx context.Context, remove []int, pairs []driver.Pair) error {
	var c crossConnects
	for _, ingress := range remove {
		c.Edits = append(c.Edits, edit{Operation: "remove", Ingress: ingress})
	}
	for _, p := range pairs {
		c.Edits = append(c.Edits, edit{"replace", p.Ingress, p.Egress})
	}
	body, err := xml.Marshal(c)
	if err != nil {
		return err
	}
	const head = `<edit-config><target><running/></target><error-option>rollback-on-error</error-option><config>`
	_, err = n.request(ctx, head+string(body)+`</config></edit-config>`)
	if err != nil {
		return fmt.Errorf("write the cross-connects: %w", err)
	}
	return nil
}

// answer holds the relevant elements of a reply.
type answer struct {
	XMLName xml.Name `xml:"urn:ietf:params:xml:ns:netconf:base:1.0 rpc-reply"`
	ID      string   `xml:"message-id,attr"`
	Errors  []struct {
		Severity string `xml:"error-severity"`
		Tag      string `xml:"error-tag"`
		Message  string `xml:"error-message"`
	} `xml:"rpc-error"`
	Pairs []struct {
		Ingress int `xml:"ingress"`
		Egress  int `xml:"egress"`
	} `xml:"data>cross-connects>pair"`
}

// request sends an operation and reads the reply. After a connection error it is unknown
// whether the switch executed the operation, and the next request makes a new connection.
func (n *Netconf) request(ctx context.Context, operation string) (*answer, error) {
	if n.session == nil {
		s, err := dial(ctx, n.address, n.config)
		if err != nil {
			return nil, err
		}
		n.session = s
	}
	s := n.session
	s.sent++
	id := fmt.Sprint(s.sent)
	text, err := s.exchange(ctx, `<rpc message-id="`+id+`" xmlns="`+base+`">`+operation+`</rpc>`)
	var a answer
	if err == nil {
		if err = xml.Unmarshal(text, &a); err == nil && a.ID != id {
			err = fmt.Errorf("the reply has message-id %q, want %s", a.ID, id)
		}
	}
	if err != nil {
		s.close()
		n.session = nil
		return nil, fmt.Errorf("%s: %w", n.address, err)
	}
	var said []string
	for _, e := range a.Errors {
		if e.Severity != "warning" {
			said = append(said, strings.TrimSpace(e.Tag+" "+strings.TrimSpace(e.Message)))
		}
	}
	if said != nil {
		return nil, errors.New("the switch answers " + strings.Join(said, "; "))
	}
	return &a, nil
}

// hello is the first message of client and server.
type hello struct {
	XMLName      xml.Name `xml:"urn:ietf:params:xml:ns:netconf:base:1.0 hello"`
	Capabilities []string `xml:"capabilities>capability"`
}

// greet exchanges hellos, which decide whether later messages are sent in chunks.
func (s *session) greet(ctx context.Context) error {
	const ours = "urn:ietf:params:netconf:base:1."
	body, err := xml.Marshal(hello{Capabilities: []string{ours + "0", ours + "1"}})
	if err != nil {
		return err
	}
	text, err := s.exchange(ctx, string(body))
	if err != nil {
		return err
	}
	var theirs hello
	if err := xml.Unmarshal(bytes.TrimSpace(text), &theirs); err != nil {
		return fmt.Errorf("this is not a NETCONF server: %w", err)
	}
	for _, c := range theirs.Capabilities {
		s.chunks = s.chunks || strings.TrimSpace(c) == ours+"1"
	}
	return nil
}
