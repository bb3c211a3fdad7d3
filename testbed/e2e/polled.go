package e2e

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/ibsim"
)

// Round is one reading of all the switches' tables by a Poller.
type Round struct {
	Start, End time.Time
	Changes    []EntryChange // against the rounds before, by switch and LID
	Missing    []ib.GUID     // switches that did not answer
}

// EntryChange is an entry that has changed.
type EntryChange struct {
	Switch  ib.GUID
	LID     ib.LID
	Was, Is uint8
}

// Poller is a process that reads all the switches' tables again and again.
type Poller struct {
	First *lft.Tables // the first reading

	client  *ibsim.Client
	answers *gob.Decoder
}

// Poll attaches a poller, the program testbed/e2e/poll, at a host, and returns when it
// has read all tables once.
func (s *Site) Poll(program, host string) (*Poller, error) {
	client, err := s.Sim.Attach(host, program, s.SubnetFile())
	if err != nil {
		return nil, err
	}
	p := &Poller{client: client, answers: gob.NewDecoder(client.Out)}
	if err := p.answers.Decode(&p.First); err != nil {
		client.End()
		return nil, fmt.Errorf("poll the switches: %w", errors.Join(err, client.Wait()))
	}
	return p, nil
}

// Stop ends the polling after the round under way, and returns the rounds after
// the first.
func (p *Poller) Stop() (rounds []Round, err error) {
	p.client.End()
	err = p.answers.Decode(&rounds)
	if err = errors.Join(err, p.client.Wait()); err != nil {
		return nil, fmt.Errorf("poll the switches: %w", err)
	}
	return rounds, nil
}

// BuildPlugin builds libforsosm.so into a directory and returns its path. It needs
// libopensm-dev, and must run within the module.
func BuildPlugin(ctx context.Context, dir string) (string, error) {
	return filepath.Join(dir, "libforsosm.so"), built.Make(ctx, "opensm/plugin", dir)
}
