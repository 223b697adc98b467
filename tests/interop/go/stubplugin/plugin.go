package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

const paddingKey = "interop.nriplugin.test/padding"

// plugin turns CPU and memory limits into cgroup v2 keys. It subscribes to as
// little as it needs for that.
type plugin struct {
	log         *eventLog // nil: no log
	sleep       time.Duration
	replyBytes  int
	syncUpdates bool
	onlyWatch   bool
	afterSync   func(*api.Container) // nil: nothing to do

	mu         sync.Mutex
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
}

func newPlugin() *plugin {
	return &plugin{
		pods:       map[string]*api.PodSandbox{},
		containers: map[string]*api.Container{},
	}
}

// Configure accepts anything and leaves the choice of events to the library,
// which subscribes to those there is a handler for.
func (p *plugin) Configure(_ context.Context, _, _, _ string) (api.EventMask, error) {
	p.log.record("Configure", nil, nil)
	return 0, nil
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.log.record("Synchronize", nil, nil)
	p.remember(pods, containers)

	if p.afterSync != nil && len(containers) > 0 {
		go p.afterSync(containers[0])
	}
	if !p.syncUpdates {
		return nil, nil
	}
	updates := make([]*api.ContainerUpdate, 0, len(containers))
	for _, c := range containers {
		updates = append(updates, weightUpdate(c))
	}
	return updates, nil
}

func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.log.record("CreateContainer", pod, container)

	p.mu.Lock()
	p.pods[pod.GetId()] = pod
	p.containers[container.GetId()] = container
	p.mu.Unlock()

	time.Sleep(p.sleep)

	if p.onlyWatch {
		return nil, nil, nil
	}
	adjust := &api.ContainerAdjustment{
		Linux: &api.LinuxContainerAdjustment{
			Resources: &api.LinuxResources{
				Unified: unified(container.GetLinux().GetResources()),
			},
		},
	}
	if missing := p.replyBytes - proto.Size(adjust); missing > 0 {
		adjust.AddAnnotation(paddingKey, strings.Repeat("x", missing))
	}
	return adjust, nil, nil
}

func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.log.recordChange("UpdateContainer", pod, container, resources)

	if p.onlyWatch {
		return nil, nil
	}
	update := &api.ContainerUpdate{
		ContainerId: container.GetId(),
		Linux:       &api.LinuxContainerUpdate{Resources: resources},
	}
	for key, value := range unified(resources) {
		update.AddLinuxUnified(key, value)
	}
	return []*api.ContainerUpdate{update}, nil
}

func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.record("RemoveContainer", pod, container)

	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.containers, container.GetId())
	return nil
}

// remember replaces everything known so far.
func (p *plugin) remember(pods []*api.PodSandbox, containers []*api.Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.pods)
	for _, pod := range pods {
		p.pods[pod.GetId()] = pod
	}
	clear(p.containers)
	for _, c := range containers {
		p.containers[c.GetId()] = c
	}
}

// weightUpdate is an update that tests can recognize.
func weightUpdate(c *api.Container) *api.ContainerUpdate {
	update := &api.ContainerUpdate{ContainerId: c.GetId()}
	update.AddLinuxUnified("cpu.weight", "42")
	return update
}
