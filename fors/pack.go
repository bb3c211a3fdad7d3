package fors

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Cables are the directed cables that a unit passes, by numbers of the caller's, −1 if
// none.
type Cables [4]int32

// NoCables are those of a unit that stays on its leaf.
var NoCables = Cables{-1, -1, -1, -1}

// Choice is a way that a unit may take, with the entries of the plan for it.
type Choice struct {
	Cables
	Way  int16
	Pick uint8 // kept with the way, for the caller
}

// Pack puts units, each from a leaf to a server, into the blocks of a plan: in a block each
// directed cable carries one of them, a server receives one, and a leaf has its slots. Cables
// are opaque numbers.
type Pack struct {
	First   []int32 // [leaf] its first slot; one more at the end, the slots of a block; nil if servers are leaves
	Servers int
	Cables  int // numbers of cables
	Work    int // how long Place searches, as slots of a plan in which that is one step
	// Choices lists the ways that a unit may take, until its next call; they do not change.
	Choices func(leaf int, to int32) []Choice

	Blocks int
	To     []int32 // [block·slots + slot] the server, −1 without a unit
	Way    []int16 // like To, −1 without a unit
	Picks  []uint8 // like To

	wide   int // numbers of cables, servers and leaves: what a block has once
	slots  int // of a block
	words  int
	busy   []uint64 // [what·words + word] a bit for each block in which it is used; of a leaf, all slots
	used   []uint16 // [block·wide + what] the slot in the block; of a leaf, how many units it has
	units  []placed // like To
	leaf   []int32  // [slot] its leaf
	rng    *rand.Rand
	failed []int32 // [leaf·servers + server] how often the unit found nothing free
	step   int
}

// placed is what the search needs of a unit in its place.
type placed struct {
	Cables
	to, failed int32
}

// Late is a unit without a place.
type Late struct {
	Leaf int
	To   int32
}

// Begin makes so many blocks without units. Seed is for choices at random.
func (k *Pack) Begin(blocks int, seed uint64) {
	if k.First == nil {
		for s := range k.Servers + 1 {
			k.First = append(k.First, int32(s))
		}
	}
	leaves := len(k.First) - 1
	k.wide, k.slots = k.Cables+k.Servers+leaves, int(k.First[leaves])
	k.rng, k.failed = rand.New(rand.NewPCG(1, seed)), make([]int32, leaves*k.Servers)
	for leaf := range leaves {
		for range k.First[leaf+1] - k.First[leaf] {
			k.leaf = append(k.leaf, int32(leaf))
		}
	}
	k.Grow(blocks)
}

// Grow adds empty blocks.
func (k *Pack) Grow(blocks int) {
	if blocks <= 0 {
		return
	}
	n := blocks * k.slots
	for range n {
		k.To, k.Way = append(k.To, -1), append(k.Way, -1)
	}
	k.Blocks += blocks
	k.Picks, k.units = append(k.Picks, make([]uint8, n)...), append(k.units, make([]placed, n)...)
	k.used = append(k.used, make([]uint16, blocks*k.wide)...)
	if words := (k.Blocks + 63) / 64; words > k.words {
		busy := make([]uint64, k.wide*words)
		for i := range k.wide {
			copy(busy[i*words:], k.busy[i*k.words:(i+1)*k.words])
		}
		k.busy, k.words = busy, words
	}
}

// server and full are what a block has of a server and of a leaf.
func (k *Pack) server(to int32) int { return k.Cables + int(to) }
func (k *Pack) full(leaf int) int   { return k.wide - len(k.First) + 1 + leaf }

// Fits puts a unit into a block by a way if nothing is in its way.
func (k *Pack) Fits(block, leaf int, to int32, c *Choice) bool {
	if k.has(k.server(to), block) || k.has(k.full(leaf), block) {
		return false
	}
	for _, i := range c.Cables {
		if i >= 0 && k.has(int(i), block) {
			return false
		}
	}
	k.put(block, leaf, to, c)
	return true
}

// has reports if something is used in a block, and of a leaf all slots.
func (k *Pack) has(what, block int) bool { return k.busy[what*k.words+block/64]>>(block%64)&1 != 0 }

// row has the blocks in which something is used.
func (k *Pack) row(what int) []uint64 { return k.busy[what*k.words:][:k.words] }

// room returns the first block, from a word on, in which a unit has nothing in its way, −1
// if none.
func (k *Pack) room(leaf int, to int32, c *Cables) int {
	full, server := k.row(k.full(leaf)), k.row(k.server(to))
	rows := [len(c)][]uint64{server, server, server, server}
	for n, i := range c {
		if i >= 0 {
			rows[n] = k.row(int(i))
		}
	}
	one, two, three, four := rows[0][:len(full)], rows[1][:len(full)], rows[2][:len(full)], rows[3][:len(full)]
	server = server[:len(full)]
	for w, busy := range full {
		if free := ^(busy | server[w] | one[w] | two[w] | three[w] | four[w]); free != 0 {
			if b := w*64 + bits.TrailingZeros64(free); b < k.Blocks {
				return b
			}
		}
	}
	return -1
}

// put puts a unit into a block, where its leaf has a free slot.
func (k *Pack) put(block, leaf int, to int32, c *Choice) {
	at := block*k.slots + int(k.First[leaf])
	for k.To[at] != -1 {
		at++
	}
	k.To[at], k.Way[at], k.Picks[at] = to, c.Way, c.Pick
	k.units[at] = placed{c.Cables, to, *k.failures(Late{leaf, to})}
	k.mark(block, at-block*k.slots, true)
}

// At returns where a unit is, as block·slots + slot, −1 if nowhere.
func (k *Pack) At(u Late) int {
	for b := range k.Blocks {
		if slot := int(k.used[b*k.wide+k.server(u.To)]); k.has(k.server(u.To), b) && int(k.leaf[slot]) == u.Leaf {
			return b*k.slots + slot
		}
	}
	return -1
}

// mark records that the unit of a slot uses its resources, or that it no longer does.
func (k *Pack) mark(block, slot int, does bool) {
	used, u, leaf := k.used[block*k.wide:][:k.wide], &k.units[block*k.slots+slot], int(k.leaf[slot])
	w, bit := block/64, uint64(1)<<(block%64)
	set := func(what int, busy bool) {
		if at := what*k.words + w; busy {
			k.busy[at] |= bit
		} else {
			k.busy[at] &^= bit
		}
	}
	for _, i := range [...]int32{u.Cables[0], u.Cables[1], u.Cables[2], u.Cables[3], int32(k.server(u.to))} {
		if i >= 0 {
			used[i] = uint16(slot)
			set(int(i), does)
		}
	}
	full := k.full(leaf)
	if used[full]++; !does {
		used[full] -= 2
	}
	set(full, int32(used[full]) == k.First[leaf+1]-k.First[leaf])
}

// Remove takes out the unit at block·slots + slot.
func (k *Pack) Remove(at int) Late {
	slot := at % k.slots
	k.mark(at/k.slots, slot, false)
	out := Late{int(k.leaf[slot]), k.To[at]}
	k.To[at], k.Way[at], k.Picks[at] = -1, -1, 0
	return out
}

// Limits of the search of a whole plan.
const (
	packMost  = 1 << 14 // steps before blocks are added in any case, if not many units have no room yet
	fewBlocks = 8       // of the blocks in which what is left would fit, one in so many is added at once
)

// Place finds room for units that have none: in the first block where nothing is in the way;
// else in place of the fewest others, first of those that have room elsewhere, then of those
// that have failed least often to find any. Where that does not get on, a block is added, or more
// if many units are left.
func (k *Pack) Place(late []Late) {
	least, patience, most := len(late), k.stall(len(late)), max(packMost, len(late)/2)
	for len(late) > 0 {
		if len(late) < least {
			least, patience = len(late), k.step+k.stall(least)
		}
		u := late[0]
		late = late[1:]
		choices := k.Choices(u.Leaf, u.To)
		if k.anywhere(u, choices) {
			continue
		}
		if k.step++; k.Blocks == 0 || k.step > min(patience, most) {
			k.Grow(1 + len(late)/(fewBlocks*k.Servers))
			k.put(k.Blocks-1, u.Leaf, u.To, &choices[0])
			patience = k.step + k.stall(len(late))
			most = max(most, patience)
			continue
		}
		*k.failures(u)++
		in, c := k.instead(u, choices)
		for _, s := range in.slots[:in.n] {
			late = append(late, k.Remove(in.block*k.slots+int(s)))
		}
		k.put(in.block, u.Leaf, u.To, &choices[c])
	}
}

// failures counts how often a unit found nothing free.
func (k *Pack) failures(u Late) *int32 {
	return &k.failed[u.Leaf*k.Servers+int(u.To)]
}

// stall returns how many steps the search may go on without fewer units being left than
// ever: more in small plans, in which a step is short, and fewer for single senders, which room in
// one more phase helps more than a longer search.
func (k *Pack) stall(left int) int {
	more := 256 + k.Work/max(1, len(k.To))
	if k.slots < len(k.First) {
		return more + left/4
	}
	return more + 32*left
}

// anywhere puts a unit where nothing is in its way.
func (k *Pack) anywhere(u Late, choices []Choice) bool {
	for c := range choices {
		if b := k.room(u.Leaf, u.To, &choices[c].Cables); b >= 0 {
			k.put(b, u.Leaf, u.To, &choices[c])
			return true
		}
	}
	return false
}

// obstacle is the units in the way of a unit in a block.
type obstacle struct {
	block int
	slots [6]int32
	n     int
	stuck int32 // stuckOnce for each without room elsewhere, and its failures
}

// stuckOnce is how many failures of others a unit without room elsewhere outweighs.
const stuckOnce = 4

// instead finds a block and a way for a unit with the least in the way, or the first from a
// random block on with nothing that is stuck. Blocks in which all its needs are taken are the last
// resort.
func (k *Pack) instead(u Late, choices []Choice) (best obstacle, choice int) {
	best.stuck = math.MaxInt32
	most := mostTries
	if k.words > 1 {
		most = max(leastTries, mostTries/len(choices))
	}
	for n := 1; n < mostNeeds || best.n == 0; n++ {
		for c := range choices {
			first, tries := k.rng.IntN(k.Blocks), most
			for i := range k.words + 1 {
				w := (first/64 + i) % k.words
				busy := k.busyWith(n, u, &choices[c], w)
				switch after := ^uint64(0) << (first % 64); i {
				case 0:
					busy &= after
				case k.words:
					busy &^= after
				}
				for ; busy != 0 && tries > 0; busy, tries = busy&(busy-1), tries-1 {
					b := w*64 + bits.TrailingZeros64(busy)
					if o := k.inTheWay(b, u, &choices[c], best.stuck); o.stuck < best.stuck || o.stuck == best.stuck && o.n < best.n {
						best, choice = o, c
					}
					if best.stuck == 0 {
						return best, choice
					}
				}
			}
		}
	}
	return best, choice
}

// Limits of the blocks that are looked at for a way of a unit, in which it finds as much taken: in
// long plans the ways share them.
const (
	mostTries  = 16
	leastTries = 4
)

// mostNeeds is how much a unit needs in a block: cables, its server, a slot of its leaf.
const mostNeeds = len(Cables{}) + 2

// busyWith returns those of 64 blocks in which a unit finds n of its needs taken.
func (k *Pack) busyWith(n int, u Late, c *Choice, w int) uint64 {
	ones, twos, fours := k.busy[k.server(u.To)*k.words+w], uint64(0), uint64(0) // the bits of a count for each block
	note := func(what int) {
		busy := k.busy[what*k.words+w]
		carry := ones & busy
		ones, twos, fours = ones^busy, twos^carry, fours|twos&carry
	}
	note(k.full(u.Leaf))
	for _, i := range c.Cables {
		if i >= 0 {
			note(int(i))
		}
	}
	same := func(bit int, of uint64) uint64 { return of ^ (uint64(n>>bit&1) - 1) }
	return same(0, ones) & same(1, twos) & same(2, fours)
}

// inTheWay lists the units in the way of a unit in a block. It counts stuck ones as long as these
// are not more than most.
func (k *Pack) inTheWay(block int, u Late, c *Choice, most int32) obstacle {
	o, ofLeaf, used := obstacle{block: block}, false, k.used[block*k.wide:][:k.wide]
	note := func(what int) {
		if !k.has(what, block) {
			return
		}
		slot := int32(used[what])
		for _, s := range o.slots[:o.n] {
			if s == slot {
				return
			}
		}
		o.slots[o.n] = slot
		o.n++
		ofLeaf = ofLeaf || int(k.leaf[slot]) == u.Leaf
	}
	note(k.server(u.To))
	for _, i := range c.Cables {
		if i >= 0 {
			note(int(i))
		}
	}
	if first, end := k.First[u.Leaf], k.First[u.Leaf+1]; !ofLeaf && k.has(k.full(u.Leaf), block) {
		o.slots[o.n] = first + int32(k.rng.IntN(int(end-first)))
		o.n++
	}
	for _, s := range o.slots[:o.n] {
		if u := &k.units[block*k.slots+int(s)]; o.stuck <= most && k.room(int(k.leaf[s]), u.to, &u.Cables) < 0 {
			o.stuck += stuckOnce + u.failed
		}
	}
	return o
}
