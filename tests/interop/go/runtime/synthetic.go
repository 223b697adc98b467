package main

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

const (
	// Above everything a synchronization sends, so that a default object is new.
	defaultPodIndex       = 900000
	defaultContainerIndex = 900000
)

// runtimeState is what the runtime tells plugins in a synchronization.
type runtimeState struct {
	pods       []*api.PodSandbox
	containers []*api.Container
}

// newRuntimeState makes containers that live alone and in pairs in a pod.
func newRuntimeState(containers, containerBytes int) runtimeState {
	state := runtimeState{}
	for i := 1; i <= containers; i++ {
		if i%3 != 0 {
			state.pods = append(state.pods, syntheticPod(len(state.pods)+1))
		}
		state.containers = append(state.containers,
			syntheticContainer(i, len(state.pods), containerBytes))
	}
	return state
}

func podID(index int) string {
	return fmt.Sprintf("p%06d", index)
}

func podUID(index int) string {
	return fmt.Sprintf("0c7a3d52-9c1e-4f6b-8d35-%012d", index)
}

func containerID(index int) string {
	return fmt.Sprintf("c%06d", index)
}

func syntheticPod(index int) *api.PodSandbox {
	name := fmt.Sprintf("web-%06d", index)
	parent := fmt.Sprintf("/kubepods/burstable/pod%s", podUID(index))
	return &api.PodSandbox{
		Id:        podID(index),
		Name:      name,
		Uid:       podUID(index),
		Namespace: "default",
		Labels: map[string]string{
			"app":                         "web",
			"io.kubernetes.pod.name":      name,
			"io.kubernetes.pod.namespace": "default",
			"io.kubernetes.pod.uid":       podUID(index),
		},
		Annotations: map[string]string{
			"kubernetes.io/config.seen":   "2025-01-01T00:00:00.000000000Z",
			"kubernetes.io/config.source": "api",
		},
		Linux: &api.LinuxPodSandbox{
			CgroupParent: parent,
			CgroupsPath:  parent + "/" + podID(index),
		},
		Pid: uint32(100000 + index),
	}
}

// syntheticContainer has about the given size, filled up with the kind of
// environment that Kubernetes makes for its services.
func syntheticContainer(index, pod, bytes int) *api.Container {
	container := &api.Container{
		Id:           containerID(index),
		PodSandboxId: podID(pod),
		Name:         "server",
		State:        api.ContainerState_CONTAINER_RUNNING,
		Labels: map[string]string{
			"io.kubernetes.container.name": "server",
			"io.kubernetes.pod.name":       fmt.Sprintf("web-%06d", pod),
			"io.kubernetes.pod.namespace":  "default",
			"io.kubernetes.pod.uid":        podUID(pod),
		},
		Annotations: map[string]string{
			"io.kubernetes.container.restartCount":           "0",
			"io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
		},
		Args: []string{"/bin/server", "--port=8080"},
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Mounts: []*api.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "relatime", "ro"}},
			{
				Destination: "/var/run/secrets/kubernetes.io/serviceaccount",
				Type:        "bind",
				Source:      fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/token", podUID(pod)),
				Options:     []string{"rbind", "rprivate", "ro"},
			},
		},
		Linux: &api.LinuxContainer{
			Namespaces:  []*api.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "cgroup"}},
			Resources:   syntheticResources(),
			OomScoreAdj: api.Int(900),
			CgroupsPath: fmt.Sprintf("/kubepods/burstable/pod%s/%s", podUID(pod), containerID(index)),
		},
	}
	for n, size := 0, proto.Size(container); size < bytes; n++ {
		variable := fmt.Sprintf("SERVICE_%04d_PORT=tcp://10.96.%d.%d:8080", n, n/256%256, n%256)
		container.Env = append(container.Env, variable)
		size += len(variable) + 2 // tag and length
	}
	return container
}

func syntheticResources() *api.LinuxResources {
	return &api.LinuxResources{
		Memory: &api.LinuxMemory{
			Limit: api.Int64(int64(256 << 20)),
		},
		Cpu: &api.LinuxCPU{
			Shares: api.UInt64(uint64(512)),
			Quota:  api.Int64(int64(50000)),
			Period: api.UInt64(uint64(100000)),
		},
	}
}
