package yardstick

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "keep the figures that have become better; a worse one fails, and nothing is written then")

const (
	kept   = "testdata/figures.csv" // the best value of each figure so far
	traded = "testdata/traded.csv"  // figures that are worse now, of those that were traded for others: fabric, figure, value
)

// trades reads the figures that may be worse than they were, by fabric and name.
func trades(t *testing.T) map[string]int {
	data, err := os.ReadFile(traded)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		at := strings.LastIndexByte(line, ',')
		value, err := strconv.Atoi(line[at+1:])
		if err != nil {
			t.Fatalf("%s: %q is not fabric,figure,value", traded, line)
		}
		found[line[:at]] = value
	}
	return found
}

// TestNoWorse compares the figures of every third fabric, or of all with FORS_LONG or -update,
// with the stored ones. A figure may be worse only as far as it is listed as traded, and is removed
// from the list when it no longer is.
func TestNoWorse(t *testing.T) {
	data, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if head := "number," + strings.Join(Names, ","); lines[0] != head || len(lines) != Fabrics+1 {
		t.Fatalf("%s has %d lines under %q, want %d under %q", kept, len(lines)-1, lines[0], Fabrics, head)
	}
	out, better, may := lines[0]+"\n", 0, trades(t)
	all := *update || os.Getenv("FORS_LONG") != ""
	for n := range Fabrics {
		if n%3 != 0 && !all {
			maps.DeleteFunc(may, func(key string, _ int) bool { return strings.HasPrefix(key, fmt.Sprintf("%d,", n)) })
			continue
		}
		was := make([]int, len(Names))
		if number := scan(lines[n+1], was); number != n {
			t.Fatalf("%s line %d is of fabric %d", kept, n+2, number)
		}
		name, is, err := Measure(t.Context(), t, n)
		if err != nil {
			t.Errorf("fabric %d, %s: %v", n, name, err)
			continue
		}
		for i, what := range Names {
			worse := is[i] > was[i] && was[i] != None
			if strings.HasSuffix(what, "bound") {
				worse = is[i] < was[i]
			}
			key := fmt.Sprintf("%d,%s", n, what)
			value, listed := may[key]
			delete(may, key)
			switch worse = worse || is[i] == None && was[i] != None; {
			case worse && listed && is[i] == value:
			case listed:
				t.Errorf("fabric %d, %s: %s is %d, was %d, and is listed as traded for %d: correct %s", n, name, what, is[i], was[i], value, traded)
			case worse:
				t.Errorf("fabric %d, %s: %s is %d, and was %d", n, name, what, is[i], was[i])
			case is[i] != was[i]:
				better++
				was[i] = is[i]
			}
		}
		out += fmt.Sprintf("%d,%s\n", n, strings.Trim(strings.ReplaceAll(fmt.Sprint(was), " ", ","), "[]"))
	}
	for key := range may {
		t.Errorf("%s lists %s, which is not a fabric and a figure", traded, key)
	}
	if better > 0 {
		t.Logf("%d figures have become better", better)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(kept, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// scan reads a line of figures.
func scan(line string, figures []int) (number int) {
	text := strings.Split(line, ",")
	for i := range text[:1+len(figures)] {
		n, err := strconv.Atoi(text[i])
		if err != nil {
			panic(err) // the file is not one of figures
		}
		if i == 0 {
			number = n
		} else {
			figures[i-1] = n
		}
	}
	return number
}
