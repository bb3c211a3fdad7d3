package ib

// Counters are the counters of a port, from PortCounters and, where the node has it,
// PortCountersExtended (InfiniBand Architecture, volume 1, sections 16.1.3.5 and 16.1.4.11).
// Counters of fewer than 64 bits stay at their greatest value once they have come to it.
type Counters struct {
	Symbols    uint64 `json:"symbol_errors"`
	Recoveries uint64 `json:"link_recoveries"`
	Downed     uint64 `json:"link_downed"`
	Received   uint64 `json:"receive_errors"`
	Discards   uint64 `json:"discards"`
	Integrity  uint64 `json:"local_integrity_errors"`
	Overruns   uint64 `json:"buffer_overruns"`
	Sent       uint64 `json:"packets_sent"`
	Wait       uint64 `json:"wait"` // ticks in which data waited
	// Full means that an error counter is at its maximum: further errors are unknown until
	// it is reset.
	Full bool `json:"full,omitempty"`
}
