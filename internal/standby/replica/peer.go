package replica

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/standby"
)

// Peer is the connection to the forsd of the other subnet manager. It asks that forsd one
// question at a time, and answers its questions.
type Peer struct {
	Address string // "" if none
	Client  *api.Client
	Asks    chan standby.Ask // the next question
	Desk    Desk             // answers the peer's questions
}

// Dial returns the peer at an address, to which this forsd authenticates with the
// credentials. If address is "", there is none, and Exists returns false.
func Dial(address string, as api.Credentials) (*Peer, error) {
	p := &Peer{Address: address, Asks: make(chan standby.Ask, 1)}
	if address == "" {
		return p, nil
	}
	var err error
	if p.Client, err = api.DialAs(address, as); err != nil {
		return nil, fmt.Errorf("peer.address: %w", err)
	}
	return p, nil
}

// Exists reports whether there is a peer.
func (p *Peer) Exists() bool { return p.Client != nil }

// Answer answers a question of the peer.
func (p *Peer) Answer(r *http.Request) (any, error) {
	if !p.Exists() {
		return nil, api.Refused("there is no other forsd: peer.address is not set")
	}
	return p.Desk.Answer(r)
}

// Put sets the next question, replacing one that was not asked yet.
func (p *Peer) Put(a standby.Ask) {
	select {
	case <-p.Asks:
	default:
	}
	p.Asks <- a
}

// Run asks the questions until ctx ends; each cancels the previous one. The result is
// passed to answered, with a context that ends with the question.
func (p *Peer) Run(ctx context.Context, answered func(ctx context.Context, serial uint64, r *Replica, err error)) error {
	defer p.Client.Close()
	var group sync.WaitGroup
	defer group.Wait()
	end := context.CancelFunc(func() {})
	for {
		select {
		case <-ctx.Done():
			end()
			return nil
		case a := <-p.Asks:
			end()
			var this context.Context
			this, end = context.WithCancel(ctx)
			group.Go(func() {
				r, err := Ask(this, p.Client, a)
				answered(this, a.Serial, r, err)
			})
		}
	}
}
