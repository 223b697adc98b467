package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// observer has a handler for every event. It is a type of its own because the
// library subscribes a plugin to whatever it has a handler for.
type observer struct {
	*plugin
}

func (o *observer) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	o.log.record("RunPodSandbox", pod, nil)
	return nil
}

func (o *observer) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	o.log.record("StopPodSandbox", pod, nil)
	return nil
}

func (o *observer) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	o.log.record("RemovePodSandbox", pod, nil)
	return nil
}

func (o *observer) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	o.log.record("PostCreateContainer", pod, container)
	return nil
}

func (o *observer) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	o.log.record("StartContainer", pod, container)
	return nil
}

func (o *observer) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	o.log.record("PostStartContainer", pod, container)
	return nil
}

func (o *observer) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	o.log.record("PostUpdateContainer", pod, container)
	return nil
}

func (o *observer) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	o.log.record("StopContainer", pod, container)
	return nil, nil
}

func (o *observer) Shutdown(context.Context) {
	o.log.record("Shutdown", nil, nil)
}
