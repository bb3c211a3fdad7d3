package cablehealth_test

import (
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
)

// TestAway removes an isolated cable while another cable has its lane. The cable is isolated
// when it returns, at any later time, and is dropped if another cable has its port.
func TestAway(t *testing.T) {
	id := func(port, spine uint8) cablehealth.Cable {
		return cablehealth.Cable{Leaf: ib.End{GUID: 1, Port: port}, Spine: ib.End{GUID: 100, Port: spine}}
	}
	now := time.Now()
	set := cablehealth.Defaults()
	set.Mode = cablehealth.Isolate
	m := cablehealth.New(set, map[cablehealth.Cable]cablehealth.Record{id(7, 1): {State: cablehealth.Isolated, Since: now, Clean: now}})
	isolated := func() int { return len(m.Isolated()) }
	for range 200 { // hours
		now = now.Add(time.Hour)
		m.Step(now, cablehealth.Round{All: []cablehealth.Cable{id(8, 2), id(12, 3)}})
		if isolated() != 1 || len(m.Records()) != 1 {
			t.Fatalf("isolated are %v", m.Isolated())
		}
	}
	m.Step(now, cablehealth.Round{All: []cablehealth.Cable{id(7, 1), id(8, 2)}, Readings: []cablehealth.Reading{{Cable: id(7, 1)}}})
	if isolated() != 1 {
		t.Error("it has come back and is not isolated")
	}
	m.Step(now, cablehealth.Round{All: []cablehealth.Cable{id(7, 4), id(8, 2)}})
	if isolated() != 0 {
		t.Error("another cable has its port, and it is isolated")
	}
}
