package scenario

// The constants of a model of the paper's measurement: a server sends at the rate
// of its cable (section 2.3, HDR), and each phase costs its transfers and a fixed
// part of a transfer for the barrier between phases. This part is chosen to give
// 141 Gb/s of 200 when no link carries two transfers (section 3.2, scenario 0F);
// nothing else is fitted.
const (
	LinkGbps      = 200.0
	PhaseOverhead = 0.418
)

// Gbps is the model's throughput of a server, in Gb/s, in a complete exchange of
// P servers whose phases take duration transfers together, each phase as long as
// its busiest link has transfers.
func Gbps(servers, phases, duration int) float64 {
	if duration == 0 {
		return 0
	}
	return LinkGbps * float64(servers-1) / (float64(duration) + PhaseOverhead*float64(phases))
}

// Reported is the throughput of a server that the paper reports for a scenario,
// in Gb/s; 0 if its text gives no number.
type Reported struct {
	Default float64 `json:"default_gbps,omitempty"` // Ftree, or Min-Hop where that does not apply
	FORS    float64 `json:"fors_gbps,omitempty"`
}

// reported holds the paper's numbers on FT(2;20,18): 141 and 87 of section 3.2,
// 137 of section 6.1, 140 and 132 of section 8. Section 6.1 adds that FORS gives
// the same throughput for the same f: with one dead cable at one leaf or at three,
// and with two dead cables at one leaf, at three, or two lost spines.
var reported = map[string]Reported{
	"0F":          {Default: 141, FORS: 140},
	"1F SW0":      {Default: 87, FORS: 137},
	"1F SW0,5,11": {FORS: 137},
	"2F SW0":      {FORS: 132},
	"2F SW0,5,11": {FORS: 132},
	"SW18,19 out": {FORS: 132},
}
