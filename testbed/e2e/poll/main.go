// Command poll reads the forwarding tables of all switches again and again, as fast as they
// answer, until its standard input ends. Then it prints the changes and their times. Its argument
// is the file with the fabric; see e2e.Poll.
package main

import (
	"context"
	"encoding/gob"
	"os"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/client"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/topology"
)

func main() { client.Main(poll) }

func poll(ctx context.Context, r *umad.Reader, fabric *topology.Fabric, ended <-chan struct{}) error {
	out := gob.NewEncoder(os.Stdout)
	last, err := read(ctx, r, fabric)
	if err != nil {
		return err
	}
	if err := out.Encode(last); err != nil {
		return err
	}
	var rounds []e2e.Round
	for {
		select {
		case <-ended:
			return out.Encode(rounds)
		default:
		}
		round := e2e.Round{Start: time.Now()}
		tables, err := read(ctx, r, fabric)
		if tables == nil {
			return err
		}
		round.End = time.Now()
		compare(&round, last, tables)
		rounds = append(rounds, round)
	}
}

// read reads all tables. On a busy machine even the local port may fail to answer in
// the little time that it is given.
func read(ctx context.Context, r *umad.Reader, fabric *topology.Fabric) (tables *lft.Tables, err error) {
	for range 50 {
		if tables, err = r.Tables(ctx, fabric); tables != nil {
			break
		}
	}
	return tables, err
}

// compare records the changes, and updates last.
func compare(round *e2e.Round, last, now *lft.Tables) {
	for i := range last.Switches {
		was := &last.Switches[i]
		j := now.Find(was.GUID)
		if j < 0 {
			round.Missing = append(round.Missing, was.GUID)
			continue
		}
		for lid := range ib.LID(max(len(was.Out), len(now.Switches[j].Out))) {
			if a, b := last.Port(i, lid), now.Port(j, lid); a != b {
				round.Changes = append(round.Changes, e2e.EntryChange{Switch: was.GUID, LID: lid, Was: a, Is: b})
			}
		}
		*was = now.Switches[j]
	}
}
