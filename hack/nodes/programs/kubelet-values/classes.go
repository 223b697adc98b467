package main

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// A cgroup manager that remembers what it is told and writes nothing.
type recorder struct {
	cm.CgroupManager
	lock    sync.Mutex
	configs map[string]*cm.ResourceConfig
}

func (r *recorder) record(config *cm.CgroupConfig) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.configs[config.Name.ToCgroupfs()] = config.ResourceParameters
	return nil
}

func (r *recorder) Validate(cm.CgroupName) error                   { return nil }
func (r *recorder) Exists(cm.CgroupName) bool                      { return true }
func (r *recorder) Create(_ klog.Logger, c *cm.CgroupConfig) error { return r.record(c) }
func (r *recorder) Update(_ klog.Logger, c *cm.CgroupConfig) error { return r.record(c) }

// The kubelet's manager of QoS classes, asked once.
func classes(q query) (answer, error) {
	for _, one := range q.Pods {
		setDefaults(one)
	}
	root := cm.NewCgroupName(cm.RootCgroupName, "kubepods")
	config := cm.NodeConfig{CgroupsPerQOS: true, MemoryReservationPolicy: policy(q.Tiered)}
	if q.Percent != nil {
		config.QOSReserved = map[v1.ResourceName]int64{v1.ResourceMemory: *q.Percent}
	}
	told := &recorder{configs: map[string]*cm.ResourceConfig{}}
	manager, err := cm.NewQOSContainerManager(&cm.CgroupSubsystems{}, root, config, told)
	if err != nil {
		return nil, err
	}
	memory := *resource.NewQuantity(q.Memory, resource.BinarySI)
	available := func() v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: memory} }
	active := func() []*v1.Pod {
		copies := make([]*v1.Pod, len(q.Pods))
		for number, one := range q.Pods {
			copies[number] = one.DeepCopy()
		}
		return copies
	}
	if err := manager.Start(context.Background(), available, active); err != nil {
		return nil, err
	}
	if err := manager.UpdateCgroups(klog.Background()); err != nil {
		return nil, err
	}
	told.lock.Lock()
	defer told.lock.Unlock()
	found := map[string]written{}
	for class, path := range map[string]string{
		"Guaranteed": "/kubepods", "Burstable": "/kubepods/burstable", "BestEffort": "/kubepods/besteffort",
	} {
		if told.configs[path] == nil {
			return nil, fmt.Errorf("%s: not written", path)
		}
		found[class] = of(told.configs[path])
	}
	return answer{"classes": found}, nil
}
