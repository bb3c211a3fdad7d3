package gpu

// Piece is a stretch of a buffer that is sent to a peer or received from one. The
// pieces that one rank sends another in a step are, concatenated, those that the
// other receives from it in that step; they may be cut differently.
type Piece struct {
	Peer   Rank  `json:"peer"`
	Offset int64 `json:"offset"` // bytes from the buffer's beginning
	Bytes  int64 `json:"bytes"`
}

// Move is a piece that is moved inside a server, and the stage during which it is moved: −1
// means before the first, and the number of stages after the last. A piece that is received
// with Add is added to what the buffer holds; in a step, those from NICs come before those
// that stay in the server.
type Move struct {
	Beside int `json:"beside"`
	Piece
	Add bool `json:"add,omitempty"`
}

// Moves lists the pieces that a rank sends and receives inside its server, by stage. A
// piece whose peer is the rank itself is copied.
type Moves struct {
	Send    []Move `json:"send"`
	Receive []Move `json:"receive"`
}

// Turn is the piece that a rank sends or receives in a stage.
type Turn struct {
	Stage int `json:"stage"`
	Piece
}

// Program is one rank's part of an exchange. It has four buffers: its input, with its
// messages by destination, without gaps; the sending and the receiving buffer of its
// NIC; and its output, with the messages to it by source. The NIC's buffers have room
// for two stages, which alternate in them: while one is sent the next is filled in,
// and while one arrives the previous one is moved on. Of tokens, the input has the rank's in
// rows, and the output those that it needs, each once, in the order of all tokens; on the way
// back it is the other way round.
type Program struct {
	Rank    Rank   `json:"rank"`
	Input   int64  `json:"input"`       // bytes of the buffers
	NICSend int64  `json:"nic_send"`    // filled during the previous stage
	NICRecv int64  `json:"nic_receive"` // emptied during the next stage
	Output  int64  `json:"output"`
	Before  Moves  `json:"before"`  // from inputs to the NICs' sending buffers
	Send    []Turn `json:"send"`    // from the NIC's sending buffer, by stage
	Receive []Turn `json:"receive"` // to the NIC's receiving buffer, by stage
	After   Moves  `json:"after"`   // from the NICs' receiving buffers to outputs
	Local   Moves  `json:"local"`   // from inputs to outputs
}
