package daemon

import (
	"slices"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/history"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/webhook"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// The daemon's own warnings.
const (
	stateDamaged = "state-damaged"
	pluginUnused = "plugin-tables-unused"
)

// kinds lists every kind of warning. docs/warnings.md is generated from them.
func kinds() []health.Warnable {
	return slices.Concat(warnables, config.Kinds(), opensm.Kinds(), history.Kinds(), webhook.Kinds(), access.Kinds())
}

// warnables lists the kinds that their packages do not provide.
var warnables = []health.Warnable{
	{Code: topology.CableDown, Severity: health.Degraded, Title: "Cables are down"},
	{Code: topology.CableDegraded, Severity: health.Degraded, Title: "Cables run below their rate"},
	{Code: topology.CableMoved, Severity: health.Info, Title: "Cables are in other ports than the baseline has"},
	{Code: topology.CableNew, Severity: health.Info, Title: "Cables have no lane"},
	{Code: topology.SpineDown, Severity: health.Degraded, Title: "Spines are absent"},
	{Code: topology.SpineNew, Severity: health.Info, Title: "New spines wait for the baseline to be accepted"},
	{Code: topology.LeafDown, Severity: health.Degraded, Title: "Leaves are absent"},
	{Code: topology.LeafNew, Severity: health.Info, Title: "Leaves are new"},
	{Code: topology.HostAbsent, Severity: health.Degraded, Title: "Hosts are absent"},
	{Code: topology.HostMoved, Severity: health.Info, Title: "Hosts moved to another leaf"},
	{Code: topology.HostNew, Severity: health.Info, Title: "Hosts are new"},
	{Code: topology.HostReplaced, Severity: health.Info, Title: "Host adapters were replaced"},
	{Code: topology.LeafBinds, Severity: health.Info, Title: "Every exchange waits for leaves with few cables"},
	{Code: topology.ExchangeDiffers, Severity: health.Degraded, Title: "The fabric differs from the groups of servers in the settings"},
	{Code: topology.FewSpineCables, Severity: health.Degraded, Title: "Leaves have few cables to spines"},
	{Code: topology.PartlyCovered, Severity: health.Degraded, Title: "The fat tree does not cover all of the fabric"},

	{Code: cables.Suspect, Severity: health.Degraded, Title: "Cables are not well"},
	{Code: cables.Isolated, Severity: health.Degraded, Title: "Cables that are not well are out of the plan"},
	{Code: cables.NotIsolated, Severity: health.Degraded, Title: "Cables that are not well stay in the plan"},
	{Code: cables.Unread, Severity: health.Degraded, Title: "The cables' counters are not read"},
	{Code: cables.PlanCongested, Severity: health.Info, Title: "Transfers of an exchange meet at cables of the plan"},

	{Code: planner.LMCTooSmall, Severity: health.Degraded, Title: "The LMC gives fewer LIDs than there are lanes"},
	{Code: planner.PlanOverBound, Severity: health.Degraded, Title: "The plan is longer than its bound"},
	{Code: planner.BasePlanOverBound, Severity: health.Info, Title: "The plan for base LIDs is longer than its bound"},
	{Code: planner.BaseLIDsCrowded, Severity: health.Info, Title: "Too many base LIDs share a cable"},
	{Code: planner.NoBasePlan, Severity: health.Degraded, Title: "Base LIDs have no plan"},
	{Code: planner.UnreachablePairs, Severity: health.Degraded, Title: "Pairs of servers share no lane"},
	{Code: planner.EngineFallback, Severity: health.Degraded, Title: "A plan failed verification and was replaced"},

	{Code: controller.NotFatTree, Severity: health.Degraded, Title: "The fabric is not a fat tree and is scheduled on OpenSM's routes"},
	{Code: controller.LiquidFailed, Severity: health.Critical, Title: "No plan could be made on OpenSM's routes"},

	{Code: state.JobHostsMissing, Severity: health.Degraded, Title: "Hosts of jobs are absent"},
	{Code: state.JobPlanFailed, Severity: health.Degraded, Title: "Jobs could not be planned"},
	{Code: state.JobSharesLanes, Severity: health.Degraded, Title: "Jobs that asked for lanes of their own share them"},
	{Code: state.JobDegraded, Severity: health.Degraded, Title: "Plans of jobs are less than they could be"},

	{Code: controller.FabricRefused, Severity: health.Critical, Title: "The fabric cannot be used"},
	{Code: controller.FabricIncomplete, Severity: health.Critical, Title: "Most servers are missing"},
	{Code: controller.CableHeld, Severity: health.Degraded, Title: "Bouncing cables are held back"},
	{Code: controller.PlanFailed, Severity: health.Critical, Title: "No plan could be made"},
	{Code: controller.PublishFailed, Severity: health.Critical, Title: "The plan could not be stored"},
	{Code: controller.TablesFailed, Severity: health.Critical, Title: "The table file could not be written"},
	{Code: controller.SignalFailed, Severity: health.Critical, Title: "OpenSM could not be signalled"},
	{Code: controller.SweepTimeout, Severity: health.Critical, Title: "OpenSM did not sweep"},
	{Code: controller.ReadBackFailed, Severity: health.Critical, Title: "The switches' tables could not be read"},
	{Code: controller.TablesStale, Severity: health.Critical, Title: "The switches hold other tables than those planned"},

	{Code: exclusions.DrainedWarning, Severity: health.Info, Title: "Parts of the fabric are drained"},

	{Code: state.StateNotDurable, Severity: health.Critical, Title: "The state cannot be stored"},
	{Code: state.BaselineLost, Severity: health.Critical, Title: "The baseline is lost"},
	{Code: stateDamaged, Severity: health.Degraded, Title: "Stored state was damaged and skipped"},
	{Code: manager.Absent, Severity: health.Critical, Title: "OpenSM is not running", Delay: 5 * time.Second},
	{Code: manager.PluginMissing, Severity: health.Degraded, Title: "OpenSM's plugin is not connected", Delay: 5 * time.Second},
	{Code: manager.PluginDeaf, Severity: health.Degraded, Title: "forsd cannot listen for OpenSM's plugin"},
	{Code: pluginUnused, Severity: health.Degraded, Title: "OpenSM did not use forsd's tables in a sweep"},
	{Code: probe.TrapsMissing, Severity: health.Info, Title: "The subnet administrator does not report traps", Delay: 5 * time.Second},
	{Code: probe.DiscoveryFailed, Severity: health.Critical, Title: "The fabric could not be discovered"},
	{Code: standby.ManagerStandby, Severity: health.Info, Title: "Another subnet manager is the master"},
	{Code: standby.PeerLost, Severity: health.Degraded, Title: "The other forsd cannot be followed", Delay: 5 * time.Second},
	{Code: standby.PeerLeads, Severity: health.Critical, Title: "Two subnet managers are the master", Delay: 5 * time.Second},
	{Code: manager.LogUnreadable, Severity: health.Info, Title: "OpenSM's log cannot be followed"},
}
