package api

import (
	"encoding/json"
	"strconv"
	"testing"
)

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		text string
		json string
		of   int // 359
	}{
		{"0", "0", 0}, {"120", "120", 120}, {"0%", `"0%"`, 0}, {"33%", `"33%"`, 118}, {"99.9%", `"99.9%"`, 358}, {"100%", `"100%"`, 359}, {"400", "400", 400},
	} {
		p, err := ParseProgress(c.text)
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(WhatIf{Done: p})
		if want := `{"fail":null,"done":` + c.json + "}"; err != nil || string(out) != want {
			t.Errorf("%s is written as %s, want %s (%v)", c.text, out, want, err)
		}
		if p.Of(359) != c.of || p.String() != c.text {
			t.Errorf("%s of 359 phases is %d, want %d; it prints as %s", c.text, p.Of(359), c.of, p)
		}
	}
	for _, bad := range []string{"", "%", "-1", "-1%", "1.5", "100.1%", "NaN%", "half", "1e99", "5 %"} {
		if p, err := ParseProgress(bad); err == nil {
			t.Errorf("%q is read as %s", bad, p)
		}
	}
}

// TestProgressOfWholeShares checks that rounding of fractions does not make a share in whole
// per cent short of a phase: 29 % of 100 phases are 29.
func TestProgressOfWholeShares(t *testing.T) {
	for percent := range 101 {
		p, err := ParseProgress(strconv.Itoa(percent) + "%")
		if err != nil {
			t.Fatal(err)
		}
		for phases := range 1000 {
			if got, want := p.Of(phases), percent*phases/100; got != want {
				t.Fatalf("%s of %d phases is %d, want %d", p, phases, got, want)
			}
		}
	}
}

// FuzzProgress checks that a value that was read and written reads the same again.
func FuzzProgress(f *testing.F) {
	for _, seed := range []string{"0", "120", `"120"`, `"33%"`, `"33.5%"`, `"NaN%"`, "-1", "null", "[]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p, again Progress
		if json.Unmarshal(data, &p) != nil {
			return
		}
		out, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &again); err != nil || again != p {
			t.Fatalf("%s is written as %s and read as %+v, want %+v (%v)", data, out, again, p, err)
		}
		if n := p.Of(1000); n < 0 {
			t.Fatalf("%s of 1000 phases is %d", data, n)
		}
	})
}
