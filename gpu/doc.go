// Package gpu schedules all-to-all exchanges on clusters of two tiers: servers
// with m GPUs and as many NICs each, a fast switch inside every server, and a slow
// network between the NICs. It follows Y.-C. Wu, C.-S. Chang, D.-S. Lee and
// H. J. Chao, "Dynamic Hierarchical Birkhoff–von Neumann Decomposition for
// All-to-All GPU Communication", and goes beyond it.
//
// A Plan sends bytes over the network in stages. In a stage, a NIC sends to at most one
// other and receives from at most one. To balance the NICs, bytes are moved inside the
// servers: to the NICs that send them during the previous stage, and from the NICs that
// received them to their destinations during the next stage. Four modes make plans:
//
//   - Paper is the published scheme: each block of a server pair is balanced
//     (Sec. IV) and decomposed, and the blocks take turns (Theorem 4).
//   - Rails colours the matrix of server pairs; NICs send to NICs of the same
//     number. Its frames have the length of Eq. 26, which those of the published
//     scheme may exceed.
//   - MinMove moves only the excess over Eq. 26, the least possible for frames of
//     that length, and colours the matrix of NICs.
//   - Bytes has few long stages, for amounts of bytes: each is a matching of
//     servers that all NICs follow, with the same length.
//
// Auto makes several of these and takes the one with the least predicted time.
//
// PlanTokens plans, in any of these modes, the tokens of a mixture of experts, each sent once to
// each other server and handed on there, and Return their way back, with sums in each server.
package gpu
