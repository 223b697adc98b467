//go:build nri08

package main

import "github.com/containerd/nri/pkg/adaptation"

// watchAdmissions has nothing to do: blockSync covers admission as well.
func watchAdmissions() {}

// blockSync waits until no plugin is between the start of its synchronization
// and getting requests, then keeps further ones from entering that stretch.
func blockSync(nri *adaptation.Adaptation, _ int) (unblock func()) {
	return nri.BlockPluginSync().Unblock
}
