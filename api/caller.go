package api

import (
	"fmt"
	"strings"
)

// Caller is who asked for something: as the kernel knows it, on the Unix socket, or by a
// certificate or a token.
type Caller struct {
	Way     string  `json:"way"` // how it is known; see the constants
	Role    Role    `json:"role"`
	User    string  `json:"user,omitempty"` // the name of the user, of the certificate, or of the token
	UID     *uint32 `json:"uid,omitempty"`  // on the Unix socket, as what follows
	PID     int32   `json:"pid,omitempty"`
	Process string  `json:"process,omitempty"`
	From    string  `json:"from,omitempty"` // address, over TCP
	Peer    bool    `json:"peer,omitempty"` // it is the other forsd

	Groups []uint32 `json:"-"` // of the user, on the Unix socket
}

// The ways in which callers are known.
const (
	WaySocket      = "socket"      // by the kernel, on the Unix socket
	WayCertificate = "certificate" // over TLS
	WayToken       = "token"
	WayTLS         = "tls" // over TLS, without either
	WayTCP         = "tcp" // over TCP without TLS
)

// String names the caller: anna (uid 1000) by forsctl (process 4711).
func (c *Caller) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.Way == WayCertificate || c.Way == WayToken && c.UID == nil:
		return fmt.Sprintf("%s (%s, from %s)", c.User, c.Way, c.From)
	case c.UID == nil:
		return strings.TrimPrefix(c.From+", unknown", ", ")
	}
	text := fmt.Sprintf("uid %d", *c.UID)
	if c.User != "" {
		text = fmt.Sprintf("%s (%s)", c.User, text)
	}
	if c.Way == WayToken {
		text = fmt.Sprintf("%s (token, uid %d)", c.User, *c.UID)
	}
	if c.Process != "" {
		return fmt.Sprintf("%s by %s (process %d)", text, c.Process, c.PID)
	}
	return fmt.Sprintf("%s by process %d", text, c.PID)
}

// Name returns the caller's name in the history: the user's name, or "uid 1000" if it has
// none.
func (c *Caller) Name() string {
	switch {
	case c != nil && c.User != "":
		return c.User
	case c != nil && c.UID != nil:
		return fmt.Sprintf("uid %d", *c.UID)
	}
	return "unknown"
}
