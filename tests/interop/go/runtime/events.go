package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// occurrence is what an event is about.
type occurrence struct {
	pod       *api.PodSandbox
	container *api.Container      // nil for events of pods
	resources *api.LinuxResources // UpdatePodSandbox only
}

// eventFunc passes one kind of event on to the plugins.
type eventFunc func(context.Context, *adaptation.Adaptation, occurrence) error

var (
	podEvents = []string{
		"RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox",
		"StopPodSandbox", "RemovePodSandbox",
	}
	containerEvents = []string{
		"PostCreateContainer", "StartContainer", "PostStartContainer",
		"PostUpdateContainer", "RemoveContainer",
	}
)

func (s *session) event(c *command) error {
	if s.nri == nil {
		return errNotStarted
	}
	ofPod := slices.Contains(podEvents, c.Event)
	if !ofPod && !slices.Contains(containerEvents, c.Event) {
		return fmt.Errorf("unknown event %q", c.Event)
	}
	send := eventFuncs()[c.Event]
	if send == nil {
		return errors.New("not in this version")
	}

	pod, container, err := c.objects(containerShare(defaultRequestBytes))
	if err != nil {
		return err
	}
	if ofPod {
		container = nil
	}
	resources, err := c.resources()
	if err != nil {
		return err
	}

	defer s.blockSync()()
	return send(context.Background(), s.nri, occurrence{pod, container, resources})
}

// eventFuncs has an entry for each event the library of this version knows.
func eventFuncs() map[string]eventFunc {
	funcs := lifecycleEvents()
	addPodUpdateEvents(funcs)
	return funcs
}
