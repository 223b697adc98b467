package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

var errNotKept = errors.New("no containers are kept: start with specs and cgroups")

const playedBytes = 1500

// play takes kept containers, each in a pod of its own, through parts of their lives:
// "run" makes and starts them, "resize" updates them, "remove" ends them, and "cycle"
// does all three. Containers first to first+count-1, as many at once as parallel says.
func (s *session) play(c *command) (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	if s.kept == nil {
		return nil, errNotKept
	}
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	parts := map[string][]func(int, *api.LinuxResources) error{
		"run": {s.runOne}, "resize": {s.resizeOne}, "remove": {s.removeOne},
		"cycle": {s.runOne, s.resizeOne, s.removeOne},
	}[c.Part]
	if parts == nil {
		return nil, fmt.Errorf("unknown part %q", c.Part)
	}

	var mu sync.Mutex
	failed := []string{}
	var running sync.WaitGroup
	slots := make(chan struct{}, max(c.Parallel, 1))
	for i := c.First; i < c.First+max(c.Count, 1); i++ {
		slots <- struct{}{}
		running.Add(1)
		go func(index int) {
			defer running.Done()
			defer func() { <-slots }()
			for _, part := range parts {
				if err := part(index, resources); err != nil {
					mu.Lock()
					failed = append(failed, fmt.Sprintf("%s: %s", containerID(index), err))
					mu.Unlock()
					return
				}
			}
		}(i)
	}
	running.Wait()
	return reply{"failed": failed}, nil
}

// runOne makes and starts a container. Synchronizations wait meanwhile, as they do
// for a real runtime: a plugin is either asked about the container or told of it.
func (s *session) runOne(index int, resources *api.LinuxResources) error {
	defer s.blockSync()()
	ctx, pod := context.Background(), syntheticPod(index)
	container := syntheticContainer(index, index, playedBytes)
	container.State = api.ContainerState_CONTAINER_CREATED
	proto.Merge(container.Linux.Resources, resources)
	fillAsLibrary(container)

	if err := s.kept.putPod(pod); err != nil {
		return err
	}
	if err := s.tell(pod, nil, "RunPodSandbox"); err != nil {
		return err
	}
	rpl, err := s.nri.CreateContainer(ctx, &api.CreateContainerRequest{
		Pod: syntheticPod(index), Container: proto.Clone(container).(*api.Container),
	})
	if err != nil {
		return fmt.Errorf("CreateContainer: %w", err)
	}
	maps.Copy(container.Annotations, rpl.GetAdjust().GetAnnotations())
	if adjusted := rpl.GetAdjust().GetLinux().GetResources(); adjusted != nil {
		proto.Merge(container.Linux.Resources, adjusted)
	}
	if err := s.kept.put(proto.Clone(container).(*api.Container)); err != nil {
		return err
	}
	s.kept.apply(rpl.GetUpdate())
	if err := s.tell(pod, container, "PostCreateContainer", "StartContainer"); err != nil {
		return err
	}
	if err := s.kept.start(container.Id); err != nil {
		return err
	}
	return s.tell(pod, s.kept.get(container.Id), "PostStartContainer")
}

func (s *session) resizeOne(index int, resources *api.LinuxResources) error {
	defer s.blockSync()()
	ctx, pod, container := context.Background(), syntheticPod(index), s.kept.get(containerID(index))
	if container == nil {
		return errors.New("not found")
	}
	if resources == nil {
		resources = syntheticResources()
		resize(resources, 1)
	}
	rpl, err := s.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{
		Pod: pod, Container: container, LinuxResources: proto.Clone(resources).(*api.LinuxResources),
	})
	if err != nil {
		return fmt.Errorf("UpdateContainer: %w", err)
	}
	// The library's answer holds the request with the plugins' values over it, or
	// nothing if there is no plugin.
	updates := rpl.GetUpdate()
	if !slices.ContainsFunc(updates, func(u *api.ContainerUpdate) bool { return u.GetContainerId() == container.Id }) {
		updates = append(updates, &api.ContainerUpdate{
			ContainerId: container.Id,
			Linux:       &api.LinuxContainerUpdate{Resources: resources},
		})
	}
	if failed := s.kept.apply(updates); len(failed) > 0 {
		return fmt.Errorf("cannot update %v", failed)
	}
	return s.tell(syntheticPod(index), s.kept.get(container.Id), "PostUpdateContainer")
}

func (s *session) removeOne(index int, _ *api.LinuxResources) error {
	defer s.blockSync()()
	pod, container := syntheticPod(index), s.kept.get(containerID(index))
	if container == nil {
		return errors.New("not found")
	}
	container.State = api.ContainerState_CONTAINER_STOPPED
	if err := s.kept.drop(container); err != nil {
		return err
	}
	rpl, err := s.nri.StopContainer(context.Background(), &api.StopContainerRequest{Pod: pod, Container: container})
	if err != nil {
		return fmt.Errorf("StopContainer: %w", err)
	}
	s.kept.apply(rpl.GetUpdate())
	if err := s.tell(pod, container, "RemoveContainer"); err != nil {
		return err
	}
	return s.tell(pod, nil, "StopPodSandbox", "RemovePodSandbox")
}

// tell passes events on to the plugins.
func (s *session) tell(pod *api.PodSandbox, container *api.Container, events ...string) error {
	funcs := eventFuncs()
	for _, event := range events {
		what := occurrence{pod: proto.Clone(pod).(*api.PodSandbox)}
		if container != nil {
			what.container = proto.Clone(container).(*api.Container)
		}
		if err := funcs[event](context.Background(), s.nri, what); err != nil {
			return fmt.Errorf("%s: %w", event, err)
		}
	}
	return nil
}
