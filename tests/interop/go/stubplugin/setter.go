package main

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// setter sets the same resources for every container, as a plugin that has a policy
// of its own does. It answers with these alone and leaves the rest of a request alone.
type setter struct {
	log    *eventLog
	create *api.LinuxResources // nil: adjust nothing
	update *api.LinuxResources // nil: leave updates as they are
}

func newSetter(log *eventLog, create, update string) (*setter, error) {
	s := &setter{log: log}
	for _, given := range []struct {
		text string
		to   **api.LinuxResources
	}{{create, &s.create}, {update, &s.update}} {
		if given.text == "" {
			continue
		}
		*given.to = &api.LinuxResources{}
		if err := protojson.Unmarshal([]byte(given.text), *given.to); err != nil {
			return nil, fmt.Errorf("bad resources %s: %w", given.text, err)
		}
	}
	return s, nil
}

func (s *setter) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	s.log.record("CreateContainer", pod, container)
	if s.create == nil {
		return nil, nil, nil
	}
	return &api.ContainerAdjustment{
		Linux: &api.LinuxContainerAdjustment{Resources: copyOf(s.create)},
	}, nil, nil
}

func (s *setter) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	s.log.recordChange("UpdateContainer", pod, container, resources)
	if s.update == nil {
		return nil, nil
	}
	return []*api.ContainerUpdate{{
		ContainerId: container.GetId(),
		Linux:       &api.LinuxContainerUpdate{Resources: copyOf(s.update)},
	}}, nil
}

func copyOf(r *api.LinuxResources) *api.LinuxResources {
	return proto.Clone(r).(*api.LinuxResources)
}
