// The modules are those of ../kubernetes, which the build names.
module nriplugin.example/kubelet-values

go 1.26.3
