package main

// worldFaults are mends of the past reverted, and other faults in what forsd decides. In new
// code, PLANTED stands for whether the fault is there.
var worldFaults = []struct{ name, file, old, new string }{
	// The controller.
	{"a lane is used before the tables are read back", "controller/controller.go", "c.closed = union(c.closed, union(c.work.Down, c.held))", "c.closed = union(c.closed, union(c.work.Down, c.held))\n\tif PLANTED {\n\t\tc.closed = nil\n\t}"},
	{"tables read back close no lanes", "controller/answers.go", "c.closed = union(c.work.Down, c.held)\n", "c.closed = union(c.work.Down, c.held)\n\t\tif PLANTED {\n\t\t\tc.closed = nil\n\t\t}\n"},
	{"tables that come first leave out held lanes", "controller/answers.go", "if c.confirmedID != c.work.ID {", "if c.confirmedID != c.work.ID && !PLANTED {"},
	{"held lanes stay in tables for ever", "controller/answers.go", "c.held = minus(c.held, minus(c.held, c.closed))", "c.held = minus(c.held, minus(c.held, c.closed))\n\t\t}\n\t\tif PLANTED {\n\t\t\tc.held = minus(c.held, minus(c.held, c.closed))"},
	{"doubted tables are not read back", "controller/controller.go", `c.auditDue, c.confirmedID = true, ""`, `c.auditDue = true
			if !PLANTED {
				c.confirmedID = ""
			}`},
	{"a hold that has ended begins nothing", "controller/answers.go", "case !slices.Equal(c.held, c.holding(c.work)):", "case !PLANTED && !slices.Equal(c.held, c.holding(c.work)):"},
	{"work goes on for a fabric that has gone", "controller/controller.go", "if c.latest.ID == c.work.ID || c.LossUnconfirmed() {", "if PLANTED || c.latest.ID == c.work.ID || c.LossUnconfirmed() {"},
	{"a master counts on the tables of another one", "controller/mastership.go", `c.known, c.confirmedID, c.done, c.force, c.swept = false, "", false, false, false`, `if !PLANTED {
		c.known, c.confirmedID, c.done, c.force, c.swept = false, "", false, false, false
	}`},
	{"answers from before a mastership count", "controller/mastership.go", "overtaken := c.outdated || c.work.ID != c.latest.ID", "overtaken := !PLANTED && (c.outdated || c.work.ID != c.latest.ID)"},
	{"a plan on tables not confirmed takes closed lanes", "controller/answers.go", `if c.behind != "" || c.stale != "" { // the file`, `if !PLANTED && (c.behind != "" || c.stale != "") { // the file`},
	{"a hold does not end", "controller/flap.go", "c.until = time.Time{}", "if !PLANTED {\n\t\t\tc.until = time.Time{}\n\t\t}"},
	{"decisions about cables do not count", "controller/controller.go", "c.latest, c.withheld = &s, union(s.Withheld, nil)", "c.latest, c.withheld = &s, union(s.Withheld, nil)\n\tif PLANTED {\n\t\tc.withheld = nil\n\t}"},
	{"cables that bounce are not held back", "controller/fabrics.go", "return union(f.flaps.held(), minus(f.withheld, s.Down))", "if PLANTED {\n\t\treturn minus(f.withheld, s.Down)\n\t}\n\treturn union(f.flaps.held(), minus(f.withheld, s.Down))"},
	{"a decision does not begin work", "controller/fabrics.go", "return f.done && f.work.ID == f.latest.ID && slices.Equal(f.held, f.holding(f.latest))", "return f.done && f.work.ID == f.latest.ID && (PLANTED || slices.Equal(f.held, f.holding(f.latest)))"},
	{"an audit never reads", "controller/controller.go", "if !c.auditDue && c.work.Kind != OwnRoutes && now.Sub(c.lastAudit) < c.set.Audit {", "if PLANTED || !c.auditDue && c.work.Kind != OwnRoutes && now.Sub(c.lastAudit) < c.set.Audit {"},
	{"a failure ends in no retry", "controller/controller.go", "\tc.at.wait(Backoff, now.Add(pause))", "\tif c.at.wait(Backoff, now.Add(pause)); PLANTED {\n\t\tc.at.enter(Backoff)\n\t}"},

	// How tables get into the switches.
	{"a read-back taken for granted", "internal/delivery/core.go", "c.confirmed != nil && c.confirmed == c.tables && !c.changing", "c.confirmed != nil && (c.confirmed == c.tables || PLANTED) && !c.changing"},
	{"a file just replaced cannot have been loaded", "internal/delivery/core.go", "if f.holds != c.confirmed {", "if f.holds != c.confirmed && !PLANTED {"},
	{"tables loaded during a read-back are forgotten", "internal/delivery/core.go", "if t != c.confirmed {", "if t != c.confirmed && !PLANTED {"},
	{"a file is not thought to be loaded", "internal/delivery/core.go", "future := add(c.loadable(), c.file.holds, c.file.writing)", "future := add(c.loadable(), c.file.holds, c.file.writing)\n\tif PLANTED {\n\t\tfuture = c.loadable()\n\t}"},
	{"tables given to a sweep are not thought to be loaded", "internal/delivery/core.go", "\tif c.sweep.routing {", "\tif c.sweep.routing && !PLANTED {"},
	{"without the plugin's answer the file is not thought to be loaded", "internal/delivery/core.go", "if !c.sweep.connected || c.sweep.state == unserved {", "if !PLANTED && (!c.sweep.connected || c.sweep.state == unserved) {"},
	{"any sweep has loaded the tables", "internal/delivery/plugin.go", "if !s.ordered && (s.given == nil || s.given == c.tables) {", "if PLANTED || !s.ordered && (s.given == nil || s.given == c.tables) {"},
	{"a sweep is given tables of another fabric", "internal/delivery/plugin.go", "case c.tables != nil && c.fabric == a.Fabric:", "case c.tables != nil && (c.fabric == a.Fabric || PLANTED):"},
	{"tables given late are not thought to be loaded", "internal/delivery/plugin.go", "s.routing = true // OpenSM loads", "s.routing = s.routing || !PLANTED // OpenSM loads"},
	{"no new sweep for other tables", "internal/delivery/core.go", "case s.state == noSweep && fits:", "case s.state == noSweep && (fits || PLANTED):"},
	{"tables of another master are remembered", "internal/delivery/core.go", "c.read, c.confirmed, c.beside, c.since, c.reading, c.during = nil, nil, nil, nil, false, nil", "if !PLANTED {\n\t\t\tc.read, c.confirmed, c.beside, c.since, c.reading, c.during = nil, nil, nil, nil, false, nil\n\t\t}"},
	{"tables in the switches are not compared", "internal/daemon/actions.go", "err = lft.Compare(want.Tables, got, lft.LIDs(v.Fabric))", "if err = lft.Compare(want.Tables, got, lft.LIDs(v.Fabric)); PLANTED {\n\t\terr = nil\n\t}"},

	// The links.
	{"a sweep overrides what a switch has said since", "internal/linkstate/linkstate.go", "return !there || l.began.After(x.asked)", "return !there || PLANTED || l.began.After(x.asked)"},
	{"a cable that a switch called down stays lost", "internal/linkstate/reads.go", "case at >= 0 && p.State == topology.Active:", "case at >= 0 && p.State == topology.Active && !PLANTED:"},
	{"a switch is read once for traps", "internal/linkstate/reads.go", "\t\tif r.again {", "\t\tif r.again && !PLANTED {"},

	// What is kept out of the plan.
	{"a drained cable in the plan", "internal/exclusions/set.go", "if s.Has(why, x.Lower.End) {", "if s.Has(why, x.Lower.End) && !(PLANTED && s.Has(Drained, x.Lower.End)) {"},
	{"an isolated cable in the plan", "internal/exclusions/set.go", "slices.SortFunc(out, controller.Compare)", "slices.SortFunc(out, controller.Compare)\n\tif PLANTED {\n\t\tout = slices.DeleteFunc(out, func(l controller.Lane) bool {\n\t\t\treturn slices.ContainsFunc(Links(t), func(x Link) bool { return x.Lane == l && !s.Has(Drained, x.Lower.End) })\n\t\t})\n\t}"},
	{"safe to pull though in use", "internal/exclusions/drains.go", "case len(uses) == 0:", "case len(uses) == 0 || PLANTED:"},
	{"safe to pull though in use again", "internal/exclusions/drains.go", "case d.State == Safe:\n\t\t\td.State", "case d.State == Safe && PLANTED:\n\t\tcase d.State == Safe:\n\t\t\td.State"},
	{"fallback traffic is no use of a drained part", "internal/exclusions/uses.go", "if h.Leaf >= 0 && u.out[h.Leaf] >= 0 {", "if PLANTED || h.Leaf >= 0 && u.out[h.Leaf] >= 0 {"},
	{"drains are not followed after a restart", "internal/exclusions/drains.go", "m.do(Follow{})\n\t\treturn m.out", "if PLANTED {\n\t\t\tm.list = nil\n\t\t}\n\t\tm.do(Follow{})\n\t\treturn m.out"},
	{"drains are not stored", "internal/daemon/drains.go", "t.store.NotStored(t.store.Decide(drainsDecided, t.loop.excluder.drains.List()))", "if !PLANTED {\n\t\t\tt.store.NotStored(t.store.Decide(drainsDecided, t.loop.excluder.drains.List()))\n\t\t}"},
	{"a follower keeps the last drain", "internal/daemon/drains.go", "if len(stored) == 0 {", "if len(stored) == 0 && !PLANTED {"},
	{"the controller is not told of drains", "internal/daemon/state.go", "snapshot.Withheld = l.excluder.seen(v)", "if withheld := l.excluder.seen(v); !PLANTED {\n\t\tsnapshot.Withheld = withheld\n\t}"},
	{"settings that change the hosts are not followed", "internal/daemon/reload.go", "if v != nil && v.ID != was.ID {", "if v != nil && v.ID != was.ID && !PLANTED {"},

	// Numbers, and what is stored.
	{"a number given twice", "internal/store/numbers.go", "n := max(s.last, s.passed) + 1", "n := max(s.last, s.passed) + 1\n\tif PLANTED {\n\t\tn = max(s.last, s.passed, 1)\n\t}"},
	{"a plan shares a number with one of its kind", "internal/store/numbers.go", "if n > max(last, s.others) {", "if PLANTED || n > max(last, s.others) {"},
	{"numbers beside a broken disk are not read", "internal/store/numbers.go", "s.passed, s.noted.Given = max(s.passed, n.Given), max(s.noted.Given, n.Given)", "if !PLANTED {\n\t\t\ts.passed, s.noted.Given = max(s.passed, n.Given), max(s.noted.Given, n.Given)\n\t\t}"},
	{"numbers beside a broken disk are not noted", "internal/store/numbers.go", "said := least <= s.noted.Given ||", "said := PLANTED || least <= s.noted.Given ||"},
	{"a stored plan replaces a later one", "internal/store/pending.go", "numbers[len(numbers)-1] == e.Epoch {", "(PLANTED || numbers[len(numbers)-1] == e.Epoch) {"},
	{"an outdated plan keeps its number", "internal/state/publish.go", "return last != nil && n > s.Disk.Numbers.Passed() && x.Is(last, report)", "return last != nil && (PLANTED || n > s.Disk.Numbers.Passed()) && x.Is(last, report)"},
	{"the wrong number for a job", "internal/state/publish.go", "t := x.Table(n)", "t := x.Table(n)\n\tif PLANTED {\n\t\tt = x.Table(n + min(job, 1))\n\t}"},
	{"a rollback's plan is handed out at a start before it has a new number", "internal/state/store.go", "\t\tif e.Epoch <= s.Disk.Numbers.Passed() {", "\t\tif e.Epoch <= s.Disk.Numbers.Passed() && !PLANTED {"},
	{"a rollback's plan keeps an old number", "internal/plans/publisher.go", "\t\tif e.Epoch <= p.Store.Disk.Numbers.Passed() {", "\t\tif e.Epoch <= p.Store.Disk.Numbers.Passed() && !PLANTED {"},
	{"a plan that may be outdated is handed out at a start", "internal/state/store.go", "(e.Epoch > s.Disk.Numbers.Passed() || e.RollbackOf != 0) {", "(PLANTED || e.Epoch > s.Disk.Numbers.Passed() || e.RollbackOf != 0) {"},
	{"a job's plan that may be outdated is handed out at a start", "internal/state/store.go", "if j.Stale || j.Epoch <= s.Disk.Numbers.Passed() {", "if j.Stale || j.Epoch <= s.Disk.Numbers.Passed() && !PLANTED {"},
	{"leases do not end", "internal/daemon/turns.go", "t.store.EndLeases(now)", "if !PLANTED {\n\t\t\tt.store.EndLeases(now)\n\t\t}"},
	{"leases end by the time of day", "internal/store/timestamp.go", `boot != "" && boot == s.BootID {`, `boot != "" && boot == s.BootID && !PLANTED {`},

	// Two forsd.
	{"a successor shows a plan older than its own", "internal/standby/replica/state.go", "s.Succeeds && r.Last <= passed {", "s.Succeeds && !PLANTED && r.Last <= passed {"},
	{"a follower notes no number of a plan that it cannot store", "internal/standby/replica/state.go", "_ = s.Store.Disk.Numbers.UseWithoutDisk(n) // if", "if PLANTED {\n\t\t\treturn\n\t\t}\n\t\t_ = s.Store.Disk.Numbers.UseWithoutDisk(n) // if"},
	{"a follower keeps jobs that have ended", "internal/standby/replica/state.go", "s.Store.EndJob(j, \"removed\")", "if !PLANTED {\n\t\t\ts.Store.EndJob(j, \"removed\")\n\t\t}"},
	{"a follower takes no decisions over", "internal/standby/replica/state.go", "s.Store.TakeDecisions(r.Decisions)", "if !PLANTED {\n\t\ts.Store.TakeDecisions(r.Decisions)\n\t}"},
	{"a follower forgets the leader's last number", "internal/standby/replica/state.go", "numbers.AdvanceTo(r.Last)", "if !PLANTED {\n\t\tnumbers.AdvanceTo(r.Last)\n\t}"},
	{"a successor takes an older state over", "internal/standby/standby.go", "case w.Last < own.Last:\n\t\tm.lead(now, \"\")", "case w.Last < own.Last && !PLANTED:\n\t\tm.lead(now, \"\")"},
	{"numbers in doubt begin at the clock, whatever was given", "internal/standby/standby.go", "a.Above = a.Over(m.given)", "if !PLANTED {\n\t\t\ta.Above = a.Over(m.given)\n\t\t}"},
	{"two forsd lead", "internal/standby/standby.go", "\tcase w.Leads:\n\t\tm.late", "\tcase w.Leads && !PLANTED:\n\t\tm.late"},
	{"two forsd take over at once", "internal/standby/standby.go", "case w.Claim != 0 && w.Claim <= m.claim:", "case w.Claim != 0 && w.Claim <= m.claim && !PLANTED:"},
	{"a leader does not yield to later plans", "internal/standby/standby.go", "if w.Last > own.Last {", "if w.Last > own.Last && !PLANTED {"},
	{"a follower takes an older state over", "internal/standby/standby.go", "case w.Last < own.Last:\n\t\tm.unusable", "case w.Last < own.Last && !PLANTED:\n\t\tm.unusable"},
	{"a forsd that yielded never leads again", "internal/standby/standby.go", "case m.manager.Master && (!w.Leads ||", "case m.manager.Master && !PLANTED && (!w.Leads ||"},
	{"a follower counts on its own tables", "internal/daemon/peer.go", "t.forgetTables() })", "if !PLANTED { t.forgetTables() } })"},
	{"in doubt no number is passed over", "internal/standby/replica/state.go", "leads && a.Above != 0 {", "leads && a.Above != 0 && !PLANTED {"},
	{"decisions of a forsd that leads again are lost", "internal/daemon/turns.go", "r.Decisions.Serial() < own.Serial() {", "r.Decisions.Serial() < own.Serial() && !PLANTED {"},
	{"a forsd that leads again plans for the other manager's fabric", "internal/daemon/turns.go", "\tt.loop.own = own\n", "\tif !PLANTED {\n\t\tt.loop.own = own\n\t}\n"},

	// Plans and tables.
	{"a plan is not verified on the next tables", "internal/plans/publisher.go", "if !a.Final && !slices.Contains(on, next) {", "if !a.Final && !slices.Contains(on, next) && !PLANTED {"},
	{"a plan is verified on the tables read back alone", "internal/plans/publisher.go", "on := p.Desk.Possible()\n\tif !a.Final", "on := p.Desk.Possible()\n\tif PLANTED {\n\t\ton = on[:1]\n\t}\n\tif !a.Final"},
	{"the next tables' base LIDs do not count", "internal/plans/publisher.go", "if !slices.Equal(a.Avoid, a.Hold) {", "if !slices.Equal(a.Avoid, a.Hold) && !PLANTED {"},
	{"a plan for base LIDs is not verified", "internal/plans/base.go", "if err == nil && r.Base != nil {", "if err == nil && r.Base != nil && !PLANTED {"},
	{"a slow cable in the plan", "topology/fit.go", "if rate.Below(t.rate) {", "if rate.Below(t.rate) && !PLANTED {"},
	{"an entry to a lane that is dead at the destination", "lft/build.go", "case from[k].State == topology.Full && to[k].State == topology.Full:", "case from[k].State == topology.Full && (PLANTED || to[k].State == topology.Full):"},
	{"tables for LIDs off by one", "lft/build.go", "copy(row, b.ports[start:])", "if PLANTED {\n\t\tcopy(row[min(1, len(row)-1):], b.ports[start:])\n\t} else {\n\t\tcopy(row, b.ports[start:])\n\t}"},
	{"lanes of LIDs off by one", "lft/build.go", "start := e.alpha % b.k", "start := e.alpha % b.k\n\tif PLANTED {\n\t\tstart = (e.alpha + 1) % b.k\n\t}"},
}
