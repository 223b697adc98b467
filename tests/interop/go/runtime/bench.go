package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// bench times CreateContainer calls one after another: of containers that are alike,
// or of which no two have the same sizes.
func (s *session) bench(c *command) (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	if c.Count < 1 {
		return nil, fmt.Errorf("cannot measure %d calls", c.Count)
	}
	size := orDefault(c.RequestBytes, defaultRequestBytes)
	nanos := make([]int64, 0, c.Count)

	defer s.blockSync()()
	for i := range c.Warmup + c.Count {
		// Each call needs a request of its own: the library writes into it.
		pod := syntheticPod(defaultPodIndex)
		usual := proto.Size(pod)
		maps.Copy(pod.Annotations, c.Annotations)
		share := containerShare(size) - (proto.Size(pod) - usual)
		req := &api.CreateContainerRequest{
			Pod:       pod,
			Container: syntheticContainer(i, defaultPodIndex, share),
		}
		if c.Differ {
			resize(req.Container.Linux.Resources, i)
		}
		if err := padRequest(req, s.requestTimeout, size); err != nil {
			return nil, err
		}

		began := time.Now()
		rpl, err := s.nri.CreateContainer(context.Background(), req)
		took := time.Since(began)

		if err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
		if isHollow(rpl.GetAdjust().ProtoReflect()) {
			return nil, fmt.Errorf("call %d: no adjustment", i)
		}
		if i >= c.Warmup {
			nanos = append(nanos, took.Nanoseconds())
		}
	}
	return reply{"nanos": nanos}, nil
}

// resize makes sizes that no other index has.
func resize(r *api.LinuxResources, index int) {
	r.Cpu.Shares.Value += uint64(index)
	r.Cpu.Quota.Value += 10 * int64(index)
	r.Memory.Limit.Value += 4096 * int64(index)
}
