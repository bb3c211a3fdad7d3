package main

// fault is a mistake in the code of forsd.
type fault struct {
	name  string
	tests []string // packages whose tests are asked
	edits []edit   // the first is where lab/mutate makes mistakes of its own
}

// edit replaces a text that a file has once.
type edit struct{ file, old, new string }

var faults = []fault{
	{"links blind on the way up", []string{"./verify"}, []edit{
		{"verify/plan.go", "if taken[a] == mark || taken[b] == mark {", "if taken[b] == mark {"}}},
	{"links blind on the way down", []string{"./verify"}, []edit{
		{"verify/plan.go", "if taken[a] == mark || taken[b] == mark {", "if taken[a] == mark {"}}},
	{"a colliding plan, and a blind verifier", []string{"./verify"}, []edit{
		{"verify/plan.go", "if taken[a] == mark || taken[b] == mark {", "if false && (taken[a] == mark || taken[b] == mark) {"},
		{"phasetable/csv.go", "buf := append(make([]byte, 0, flushAt+longest), CSVHeader+\"\\n\"...)", "buf := append(make([]byte, 0, flushAt+longest), CSVHeader+\"\\n\"...)\n\tcollide(t)"},
		{"phasetable/csv.go", "// appendGUID appends", collide + "// appendGUID appends"}}},
	{"a pair left out, and a verifier that does not count", []string{"./verify"}, []edit{
		{"verify/plan.go", "if s, d, ok := c.seen.missing(); ok {", "if s, d, ok := c.seen.missing(); ok && false {"},
		{"phasetable/csv.go", "if d == Idle {\n\t\t\t\tcontinue", "if d == Idle || p == 0 && s == 0 {\n\t\t\t\tcontinue"}}},
	{"walks on three levels blind to links", []string{"./verify"}, []edit{
		{"verify/walk.go", "if w.taken[c] == mark {", "if w.taken[c] == mark && false {"}}},
	{"a pair that occurs twice passes", []string{"./verify"}, []edit{
		{"verify/pairs.go", "fresh := *word&mask == 0", "fresh := *word&mask == 0 || true"}}},
	{"rings of channels pass", []string{"./verify"}, []edit{
		{"verify/deadlock.go", "if path[i] == b {", "if path[i] == b && false {"}}},
	{"an entry to a lane that is dead at the destination", []string{"./lft"}, []edit{
		{"lft/build.go", "case from[k].State == topology.Full && to[k].State == topology.Full:", "case from[k].State == topology.Full:"}}},
	{"tables for LIDs off by one", []string{"./lft"}, []edit{
		{"lft/build.go", "copy(row, b.ports[start:])", "copy(row[min(1, len(row)-1):], b.ports[start:])"}}},
	{"lanes of LIDs off by one", []string{"./lft"}, []edit{
		{"lft/build.go", "start := e.alpha % b.k", "start := (e.alpha + 1) % b.k"}}},
	{"the table file is for LIDs off by one", []string{"./lft"}, []edit{
		{"lft/write.go", "hex[lid>>8&15], hex[lid>>4&15], hex[lid&15]", "hex[lid>>8&15], hex[lid>>4&15], hex[(lid^1)&15]"}}},
	{"a bound one too high", []string{"./fors"}, []edit{
		{"fors/bounds.go", "local := len(w.t.Slots[A]) - 1", "local := len(w.t.Slots[A])"}}},
	{"a bound that forgets leaves", []string{"./fors"}, []edit{
		{"fors/bounds.go", "if leaf := w.leafBound(b.LowerBound); leaf > b.LowerBound {", "if leaf := w.leafBound(b.LowerBound); leaf > b.LowerBound && false {"}}},
	{"phases counted from 1", []string{"./phasetable"}, []edit{
		{"phasetable/csv.go", "strconv.AppendInt(buf, int64(p), 10)", "strconv.AppendInt(buf, int64(p+1), 10)"}}},
	{"another LID than the one meant", []string{"./phasetable"}, []edit{
		{"phasetable/csv.go", "strconv.AppendUint(buf, uint64(t.DLID[i]), 10)", "strconv.AppendUint(buf, uint64(t.DLID[i]^1), 10)"}}},
	{"lanes named off by one", []string{"./phasetable"}, []edit{
		{"phasetable/csv.go", "strconv.AppendInt(buf, int64(t.Lane[i]), 10)", "strconv.AppendInt(buf, int64(t.Lane[i]^1), 10)"}}},
	{"a server left out of the listing", []string{"./phasetable"}, []edit{
		{"phasetable/csv.go", "for _, s := range order {", "for _, s := range order[min(1, len(order)):] {"}}},
	{"a gap off by one", []string{"./planner", "./phasetable"}, []edit{
		{"phasetable/summary.go", "phases - bound}", "phases - bound + 1}"}}},
	{"plans under each other's file names", []string{"./planner", "./internal/cli"}, []edit{
		{"planner/report.go", `"phases.csv"`, `"base.csv"`},
		{"planner/report.go", `BaseFile        = "base.csv"`, `BaseFile        = "phases.csv"`}}},
	{"a slow cable in the plan", []string{"./topology"}, []edit{
		{"topology/fit.go", "if rate.Below(t.rate) {", "if rate.Below(t.rate) && false {"}}},
	{"a number given twice", []string{"./internal/store"}, []edit{
		{"internal/store/numbers.go", "n := max(s.last, s.passed) + 1", "n := max(s.last, s.passed, 1)"}}},
	{"a drained cable in the plan", []string{"./internal/exclusions"}, []edit{
		{"internal/exclusions/set.go", "= Isolated | Drained", "= Isolated"}}},
	{"a lane used before the read-back", []string{"./controller"}, []edit{
		{"controller/controller.go", "c.closed = union(c.closed, union(c.work.Down, c.held))", "c.closed = nil"}}},
	{"the wrong number for a job", []string{"./internal/daemon"}, []edit{
		{"internal/state/publish.go", "t := x.Table(n)", "t := x.Table(n + min(job, 1))"}}},
	{"a read-back taken for granted", []string{"./internal/delivery"}, []edit{
		{"internal/delivery/core.go", "c.confirmed != nil && c.confirmed == c.tables && !c.changing", "c.confirmed != nil && !c.changing"}}},
}

// collide makes two servers of a leaf that send at once use one lane, by the LID of the
// destination that stands for it.
const collide = `func collide(t *Table) {
	n := len(t.Servers)
	for i := range t.To {
		for j := i + 1; j < (i/n+1)*n; j++ {
			if t.To[i] == Idle || t.To[j] == Idle || t.Lane[i] < 0 || t.Lane[j] < 0 || t.Servers[i%n].Leaf != t.Servers[j%n].Leaf {
				continue
			}
			d, lanes := t.Servers[t.To[j]], 1<<t.Servers[t.To[j]].LMC
			if lanes != t.Lanes {
				return
			}
			by := (int(t.DLID[j]-d.LID) + int(t.Lane[i]-t.Lane[j]) + lanes) % lanes
			t.Lane[j], t.DLID[j] = t.Lane[i], d.LID+ib.LID(by)
			return
		}
	}
}

`
