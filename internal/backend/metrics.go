package backend

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
)

// Metrics are the metrics for monitoring: gauges of the state, read on request, and the
// duration of each stage of a change.
type Metrics struct {
	Registry *prometheus.Registry
	named    prometheus.Registerer // gives all metrics the fabric's name as a label, if it has one
	stations *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	gathered gathered
}

// stationBuckets range from a millisecond to the slowest sweep of the manager.
var stationBuckets = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

func newMetrics(b *Backend) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), stations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "forsd_change_seconds", Help: "Time from the first sign of a change, a trap or a new dump, to its stations.", Buckets: stationBuckets}, []string{"station"})}
	name := prometheus.Labels{}
	if b.Fabric != "" {
		name["fabric"] = b.Fabric
	}
	m.named = prometheus.WrapRegistererWith(name, m.Registry)
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forsd_requests_refused_total", Help: "Requests that were refused for who asked, how, or how often."}, []string{"reason"})
	for _, reason := range []string{server.RefusedRole, server.RefusedToken, server.RefusedCertificate, server.RefusedStranger, server.RefusedRate} {
		m.refused.WithLabelValues(reason)
	}
	m.named.MustRegister(m.refused)
	gauge := func(name, help string, f func() float64) {
		m.named.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	labelled := func(name, help, label, value string, f func() float64) {
		m.named.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, f))
	}
	ofBase := func(f func(*planner.Report) int) func() float64 {
		return ifAny(func() *state.Base { return b.State.Now().Base }, func(x *state.Base) float64 { return float64(f(&x.Report)) })
	}
	ofEpoch := func(f func(*store.Epoch) float64) func() float64 {
		return ifAny(func() *store.Epoch { return b.State.Now().Epoch }, f)
	}
	gauge("forsd_epoch", "Number of the epoch in force.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.Epoch) }))
	gauge("forsd_published_timestamp_seconds", "When the epoch in force was published.", ofEpoch(func(e *store.Epoch) float64 { return seconds(e.PublishedAt) }))
	gauge("forsd_phases", "Phases of the plan in force.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.Report.Phases) }))
	gauge("forsd_lower_bound_phases", "Least possible number of phases, as far as it is proved.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.Report.LowerBound) }))
	gauge("forsd_pairs_changed", "Ordered pairs of servers that the epoch in force gives another destination LID than the epoch before.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.PairsChanged) }))
	gauge("forsd_base_phases", "Phases of the plan for base LIDs in force, 0 for none.", ofBase(func(r *planner.Report) int { return r.Phases }))
	gauge("forsd_base_lower_bound_phases", "Least possible number of phases for base LIDs, as far as it is proved.", ofBase(func(r *planner.Report) int { return r.LowerBound }))
	gauge("forsd_busiest_cable_transfers", "Transfers of a whole exchange by base LIDs over the directed cable that has most of them, 0 while it is not known.", func() float64 { return float64(b.State.Now().Load.BusiestCable) })
	gauge("forsd_fair_share_transfers", "Transfers that some cable has with any tables for base LIDs.", func() float64 { return float64(b.State.Now().Load.FairShare) })
	gauge("forsd_servers", "Servers of the plan in force.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.Report.Servers) }))
	gauge("forsd_unreachable_pairs", "Ordered pairs of servers that the plan in force leaves out.", ofEpoch(func(e *store.Epoch) float64 { return float64(e.Report.UnreachablePairs) }))
	m.named.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "forsd_history_lost_total", Help: "Events that are missing in the history, because more came than could be stored."},
		func() float64 { return float64(b.History.Lost()) }))
	for result, count := range map[string]func() uint64{"sent": b.Webhook.Sent, "lost": b.Webhook.Lost} {
		m.named.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "forsd_webhook_messages_total", Help: "Messages that the webhook has accepted, and that were given up.",
			ConstLabels: prometheus.Labels{"result": result}}, func() float64 { return float64(count()) }))
	}
	gauge("forsd_history_bytes", "Size of the history's database.", func() float64 { return float64(b.History.Bytes()) })
	gauge("forsd_jobs", "Jobs with a plan of their own.", func() float64 { return float64(len(b.State.Now().Jobs)) })
	gauge("forsd_jobs_own_lanes", "Jobs with lanes that no other job uses.", func() float64 { return count(b.State.Now().Jobs, func(j *state.Job) bool { return len(j.Lanes) > 0 }) })
	gauge("forsd_jobs_routed", "Jobs whose own plans route their base LIDs.", func() float64 { return count(b.State.Now().Jobs, func(j *state.Job) bool { return j.Routed }) })
	gauge("forsd_lanes_down", "Cables of the baseline that no schedule can use.", ifAny(func() *view.View { return b.State.Now().Latest }, func(v *view.View) float64 { return float64(len(v.Down)) }))
	gauge("forsd_cable_counters_read_timestamp_seconds", "When a round over the counters of the cables ended last, 0 for never.", func() float64 { return seconds(b.Cables.ReadAt()) })
	for _, s := range []cablehealth.State{cablehealth.Good, cablehealth.Suspect, cablehealth.Isolated, cablehealth.Probation} {
		labelled("forsd_cables", "Cables whose health is followed.", "state", string(s), func() float64 { return float64(b.Cables.Count(s)) })
	}
	gauge("forsd_cables_slow", "Cables whose transfers took longer than others in the last measured exchange.", func() float64 { n, _ := b.Cables.Slow(); return float64(n) })
	gauge("forsd_cables_measured_timestamp_seconds", "When an exchange last told of cables, 0 for never.", func() float64 { _, at := b.Cables.Slow(); return seconds(at) })
	for _, kind := range cables.Kinds() {
		m.named.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "forsd_cable_decisions_total", Help: "Decisions about cables.",
			ConstLabels: prometheus.Labels{"decision": kind}}, func() float64 { return float64(b.Cables.Decided(kind)) }))
	}
	for _, state := range []exclusions.State{exclusions.Scheduled, exclusions.Draining, exclusions.Safe} {
		labelled("forsd_drains", "Parts of the fabric that are taken out to be worked on.", "state", string(state), func() float64 {
			return count(b.State.Now().Drains, func(d exclusions.Drain) bool { return d.State == state })
		})
	}
	gauge("forsd_tables_match", "1 when the tables read back last are those planned.", func() float64 { match, _ := b.TablesMatch(); return truth(match) })
	gauge("forsd_plugin_connected", "1 while OpenSM's plugin is connected.", func() float64 { return truth(b.OpenSM().Plugin != nil) })
	gauge("forsd_standby", "1 while another subnet manager is the master.", func() float64 { return truth(b.State.Now().Standby) })
	gauge("forsd_config_last_reload_successful", "1 unless the last changed configuration was refused.", func() float64 { good, _ := b.Settings.Last(); return truth(good) })
	gauge("forsd_config_last_reload_success_timestamp_seconds", "When the configuration was last read and found good.", func() float64 { _, at := b.Settings.Last(); return seconds(at) })
	gauge("forsd_ready", "1 once a verified epoch is in force.", func() float64 { return truth(b.State.Now().Ready) })
	for _, s := range []health.Severity{health.Info, health.Degraded, health.Critical} {
		labelled("forsd_warnings", "Warnings in force.", "severity", string(s), func() float64 {
			return count(b.State.Health.List(time.Now()), func(w health.Warning) bool { return w.Severity == s })
		})
	}
	m.named.MustRegister(inForce{b.State.Health}, terms(b.Terms), m.stations, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// inForce is a collector with one metric for each code of a warning in force. The reference
// lists all codes.
type inForce struct{ health *health.Tracker }

var warningInForce = prometheus.NewDesc("forsd_warning_in_force", "1 for each warning that is in force.", []string{"code", "severity"}, nil)

// Describe sends the metric's description.
func (inForce) Describe(out chan<- *prometheus.Desc) { out <- warningInForce }

// Collect sends one metric for each code, even if several sources raise it.
func (c inForce) Collect(out chan<- prometheus.Metric) {
	told := map[string]bool{}
	for _, w := range c.health.List(time.Now()) {
		if !told[w.Code] {
			told[w.Code] = true
			out <- prometheus.MustNewConstMetric(warningInForce, prometheus.GaugeValue, 1, w.Code, string(w.Severity))
		}
	}
}

// terms is a collector for the earliest expiry of each kind.
type terms func(now time.Time) []access.Term

var expires = prometheus.NewDesc("forsd_expires_timestamp_seconds", "When the first certificate, client authority, list of revoked certificates, token or lease expires.", []string{"kind"}, nil)

// Describe sends the metric's description.
func (terms) Describe(out chan<- *prometheus.Desc) { out <- expires }

// Collect sends one metric for each kind that has a term.
func (f terms) Collect(out chan<- prometheus.Metric) {
	first := map[string]time.Time{}
	for _, t := range f(time.Now()) {
		if at, has := first[t.Kind]; !has || t.Until.Before(at) {
			first[t.Kind] = t.Until
		}
	}
	for kind, at := range first {
		out <- prometheus.MustNewConstMetric(expires, prometheus.GaugeValue, float64(at.Unix()), kind)
	}
}

// ifAny returns f of the result of get, or 0 if that is nil.
func ifAny[T any](get func() *T, f func(*T) float64) func() float64 {
	return func() float64 {
		if x := get(); x != nil {
			return f(x)
		}
		return 0
	}
}

// count returns how many values of a list are of a kind.
func count[T any](list []T, is func(T) bool) (n float64) {
	for _, x := range list {
		if is(x) {
			n++
		}
	}
	return n
}

// seconds returns a time as a metric, or 0 if it is zero.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1e3
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Observe records a completed change.
func (m *Metrics) Observe(t state.Times) {
	for name, at := range map[string]time.Time{"verified": t.Verified, "published": t.Published, "written": t.Written, "read_back": t.ReadBack} {
		if since := t.Since(at); since > 0 {
			m.stations.WithLabelValues(name).Observe(since.Seconds())
		}
	}
}

// Refused counts a refused request.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// gathered holds the text of the metrics and its time.
type gathered struct {
	mu     sync.Mutex // guards the fields below
	at     time.Time
	answer server.Recorder
}

// gatheredFor is how long requests share one text, because gathering takes time and memory.
const gatheredFor = 100 * time.Millisecond

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	fresh := promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{DisableCompression: true})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g := &m.gathered
		g.mu.Lock()
		if time.Since(g.at) > gatheredFor {
			g.answer = server.Recorder{Head: http.Header{}, Status: http.StatusOK}
			fresh.ServeHTTP(&g.answer, &http.Request{Method: http.MethodGet}) // in text format
			g.at = time.Now()
		}
		now := g.answer
		g.mu.Unlock()
		maps.Copy(w.Header(), now.Head)
		w.WriteHeader(now.Status)
		_, _ = w.Write(now.Body) // fails only if the client has disconnected
	})
}
