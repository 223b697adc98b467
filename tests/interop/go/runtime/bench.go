package main

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// bench times CreateContainer calls one after another.
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
		req := &api.CreateContainerRequest{
			Pod:       syntheticPod(defaultPodIndex),
			Container: syntheticContainer(i, defaultPodIndex, containerShare(size)),
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
