package daemon

import (
	"forsd/controller"
)

// prepareAtMost is how many plans are made ahead of the next loss. One answers for all
// cables that are alike.
const prepareAtMost = 12

// prepare makes the plans ahead, beside the loop, that the loss of one more cable would
// call for. A change that comes meanwhile ends it.
func (d *Daemon) prepare() {
	v := d.latest()
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	if v == nil {
		return
	}
	d.work.Go(func() {
		made := 0
		for l := range v.tree.Leaves {
			for k := range v.tree.Lanes {
				if made == prepareAtMost || d.latest().id != v.id {
					return
				}
				next := append([]controller.Lane{{Leaf: l, Lane: k}}, held...)
				if v.tree.LaneUp(l, k) && d.memory.Prepare(v.held(next), d.planning()) {
					made++
				}
			}
		}
	})
}
