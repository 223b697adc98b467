package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// finishedContainers is how many containers take turns if each is removed after its
// creation. Their cgroups are made by whoever runs the benchmark.
const finishedContainers = 16

// bench times CreateContainer calls one after another: of containers that are alike,
// or of which no two have the same sizes. With Finish, each container is also started,
// stopped and removed before the next one is created, which is not timed.
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
		index := i
		if c.Finish {
			index = i % finishedContainers
		}
		pod := syntheticPod(defaultPodIndex)
		usual := proto.Size(pod)
		maps.Copy(pod.Annotations, c.Annotations)
		share := containerShare(size) - (proto.Size(pod) - usual)
		req := &api.CreateContainerRequest{
			Pod:       pod,
			Container: syntheticContainer(index, defaultPodIndex, share),
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
		if c.Finish {
			if err := s.finish(req.Pod, req.Container); err != nil {
				return nil, fmt.Errorf("call %d: %w", i, err)
			}
		}
	}
	return reply{"nanos": nanos}, nil
}

// finish takes a created container through the rest of its life.
func (s *session) finish(pod *api.PodSandbox, container *api.Container) error {
	ctx, send := context.Background(), eventFuncs()
	what := occurrence{pod: pod, container: container}
	for _, event := range []string{"PostCreateContainer", "StartContainer", "PostStartContainer"} {
		if err := send[event](ctx, s.nri, what); err != nil {
			return fmt.Errorf("%s: %w", event, err)
		}
	}
	stop := &api.StopContainerRequest{Pod: pod, Container: container}
	if _, err := s.nri.StopContainer(ctx, stop); err != nil {
		return fmt.Errorf("StopContainer: %w", err)
	}
	if err := send["RemoveContainer"](ctx, s.nri, what); err != nil {
		return fmt.Errorf("RemoveContainer: %w", err)
	}
	return nil
}

// resize makes sizes that no other index has.
func resize(r *api.LinuxResources, index int) {
	r.Cpu.Shares.Value += uint64(index)
	r.Cpu.Quota.Value += 10 * int64(index)
	r.Memory.Limit.Value += 4096 * int64(index)
}
