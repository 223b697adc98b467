package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// kept is what a runtime knows of its containers and writes for them: their
// specifications, which outlive it in a directory, and their cgroups, which are
// directories of plain files. A container is in one pod with the same index.
type kept struct {
	specs   string
	cgroups string
	files   map[string][]byte // of a new cgroup

	mu         sync.Mutex
	containers map[string]*api.Container
	pods       map[string]*api.PodSandbox
}

// openKept reads what an earlier runtime has left.
func openKept(specs, cgroups, template string) (*kept, error) {
	k := &kept{
		specs: specs, cgroups: cgroups, files: map[string][]byte{},
		containers: map[string]*api.Container{}, pods: map[string]*api.PodSandbox{},
	}
	names, _ := filepath.Glob(filepath.Join(template, "*"))
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		k.files[filepath.Base(name)] = content
	}
	names, _ = filepath.Glob(filepath.Join(specs, "*.json"))
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		container := &api.Container{}
		if err := protojson.Unmarshal(raw, container); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		k.containers[container.Id] = container
		k.pods[container.PodSandboxId] = syntheticPod(indexOf(container.Id))
	}
	return k, nil
}

func indexOf(id string) (index int) {
	fmt.Sscanf(id, "c%d", &index)
	return index
}

// state is what a synchronization tells; the library may write into it.
func (k *kept) state() runtimeState {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := runtimeState{}
	for _, pod := range k.pods {
		state.pods = append(state.pods, proto.Clone(pod).(*api.PodSandbox))
	}
	for _, container := range k.containers {
		state.containers = append(state.containers, proto.Clone(container).(*api.Container))
	}
	return state
}

func (k *kept) get(id string) *api.Container {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.containers[id]; found != nil {
		return proto.Clone(found).(*api.Container)
	}
	return nil
}

func (k *kept) putPod(pod *api.PodSandbox) error {
	k.mu.Lock()
	k.pods[pod.Id] = pod
	k.mu.Unlock()
	return k.makeCgroup(pod.Linux.CgroupParent)
}

// put writes the cgroup first, and then the specification, as runtimes do.
func (k *kept) put(container *api.Container) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store(container)
}

// start notes that a container runs.
func (k *kept) start(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[id].State = api.ContainerState_CONTAINER_RUNNING
	return k.store(k.containers[id])
}

func (k *kept) store(container *api.Container) error {
	if err := k.writeCgroup(container); err != nil {
		return err
	}
	raw, err := protojson.Marshal(container)
	if err != nil {
		return err
	}
	name := filepath.Join(k.specs, container.Id)
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		return err
	}
	k.containers[container.Id] = container
	return os.Rename(name, name+".json")
}

func (k *kept) drop(container *api.Container) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.containers, container.Id)
	delete(k.pods, container.PodSandboxId)
	if err := os.Remove(filepath.Join(k.specs, container.Id+".json")); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Dir(filepath.Join(k.cgroups, container.Linux.CgroupsPath)))
}

// update lays resources over a container's; it returns false for an unknown one.
func (k *kept) update(id string, resources *api.LinuxResources) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	container := k.containers[id]
	if container == nil {
		return false, nil
	}
	proto.Merge(container.Linux.Resources, resources)
	return true, k.store(container)
}

// apply does what plugins ask for, and returns what it could not do.
func (k *kept) apply(updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate) {
	for _, u := range updates {
		if u == nil {
			continue
		}
		if known, err := k.update(u.ContainerId, u.GetLinux().GetResources()); !known || err != nil {
			failed = append(failed, u)
		}
	}
	return failed
}

// makeCgroup makes the cgroup of which no part is seen before all of it is there.
func (k *kept) makeCgroup(cgroup string) error {
	path := filepath.Join(k.cgroups, cgroup)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	making := filepath.Join(k.specs, "making-"+filepath.Base(path))
	if err := os.MkdirAll(making, 0o755); err != nil {
		return err
	}
	for name, content := range k.files {
		if err := os.WriteFile(filepath.Join(making, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.Rename(making, path)
}

// writeCgroup writes a container's numbers, the weight linearly as runc 1.3.1 does,
// and then its cgroup v2 values.
func (k *kept) writeCgroup(container *api.Container) error {
	cgroup, r := container.Linux.CgroupsPath, container.Linux.Resources
	if err := k.makeCgroup(cgroup); err != nil {
		return err
	}
	values := map[string]string{
		"cpu.weight": fmt.Sprint(1 + (r.Cpu.Shares.GetValue()-2)*9999/262142),
		"cpu.max":    fmt.Sprintf("%d %d", r.Cpu.Quota.GetValue(), r.Cpu.Period.GetValue()),
		"memory.max": fmt.Sprint(r.Memory.Limit.GetValue()),
	}
	for name, value := range r.Unified {
		values[name] = value
	}
	for name, value := range values {
		if err := writeFile(filepath.Join(k.cgroups, cgroup, name), value); err != nil {
			return err
		}
	}
	return nil
}

// writeFile leaves no moment in which the file is empty, as the kernel does. A lone
// quota keeps the period, as in the kernel.
func writeFile(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if filepath.Base(path) == "cpu.max" && !strings.Contains(value, " ") {
		value += " 100000"
	}
	if _, err := file.WriteAt([]byte(value+"\n"), 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(value) + 1))
}
