package adapter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/forsd/forsd/testbed/ibsim"
)

// Follower keeps a fabric's tables and links equal to those of a simulation.
type Follower struct {
	fabric *Fabric
	client *ibsim.Client
	ended  chan struct{}
}

// Follow makes the fabric take tables and the states of links from the switches of a
// simulation, read by management datagrams from one of its hosts, as long as it runs. The
// fabric of Options was read from the subnet file. Follow returns when everything has been
// read once.
func (a *Fabric) Follow(ctx context.Context, sim *ibsim.Sim, host, subnet string) (*Follower, error) {
	data, err := os.ReadFile(subnet) // it may change before the program reads it
	if err != nil {
		return nil, err
	}
	copied := filepath.Join(a.dir, "subnet.lst")
	if err := os.WriteFile(copied, data, 0o644); err != nil {
		return nil, err
	}
	client, err := sim.Attach(host, filepath.Join(a.options.Programs, "follow"), copied)
	if err != nil {
		return nil, err
	}
	f := &Follower{fabric: a, client: client, ended: make(chan struct{})}
	go f.carry()
	if err := f.Caught(ctx); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// carry passes the output of the program to the data fabric, line by line.
func (f *Follower) carry() {
	lines := bufio.NewReader(f.client.Out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		_ = f.fabric.tell(func() error { _, err := f.fabric.in.Write(line); return err })
	}
	close(f.ended)
}

// Caught waits until the switches have been read once more from beginning to end.
func (f *Follower) Caught(ctx context.Context) error {
	for range 2 {
		f.fabric.mu.Lock()
		more := f.fabric.more
		f.fabric.mu.Unlock()
		select {
		case <-more:
		case <-f.ended:
			return errors.New("follow the simulation: the program has ended")
		case <-ctx.Done():
			return fmt.Errorf("follow the simulation: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Stop ends the program after the round under way.
func (f *Follower) Stop() error {
	f.client.End()
	<-f.ended
	return f.client.Wait()
}
