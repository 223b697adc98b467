{{/* The arguments of `nriplugin run`. */}}
{{- define "nriplugin.command" -}}
- nriplugin
- run
- --nri-socket={{ .Values.nri.socket }}
- --config=/etc/nriplugin/config.yaml
# On the pod's own address: kubelet's probes and Prometheus do not reach the loopback
# address of a pod.
- --http=:{{ .Values.http.port }}
{{- if ne .Values.nri.plugin.index "99" }}
- --idx={{ .Values.nri.plugin.index }}
{{- end }}
{{- if ne .Values.nri.plugin.name "nriplugin" }}
- --name={{ .Values.nri.plugin.name }}
{{- end }}
{{- if ne .Values.log.format "text" }}
- --log-format={{ .Values.log.format }}
{{- end }}
{{- if .Values.log.verbose }}
- --verbose
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "nriplugin.securityContext" -}}
{{- $context := deepCopy .Values.securityContext -}}
{{- with .Values.seLinuxOptions -}}
{{- $_ := set $context "seLinuxOptions" . -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* What of the node is mounted where. */}}
{{- define "nriplugin.volumeMounts" -}}
- name: nri
  mountPath: {{ dir .Values.nri.socket }}
  readOnly: true
- name: config
  mountPath: /etc/nriplugin
  readOnly: true
- name: cgroup
  mountPath: /host/sys/fs/cgroup
  readOnly: {{ not .Values.nodeAccess.cgroupWrites }}
- name: run
  mountPath: /run/nriplugin
- name: state
  mountPath: /var/lib/nriplugin
{{- if .Values.nodeAccess.systemd }}
- name: dbus
  mountPath: /host/run/dbus
  readOnly: true
{{- end }}
{{- if .Values.nodeAccess.kubeletCheckpoint }}
- name: kubelet
  mountPath: /host/var/lib/kubelet
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "nriplugin.volumes" -}}
# With the type Directory, a missing directory is not created: then NRI is off, and the
# pod's events show the failed mount.
- name: nri
  hostPath:
    path: {{ dir .Values.nri.socket }}
    type: {{ ternary "DirectoryOrCreate" "Directory" .Values.nri.runtime.patchConfig }}
# The whole ConfigMap is mounted, because a mount with subPath is never updated.
- name: config
  configMap:
    name: {{ .set.name }}
- name: cgroup
  hostPath:
    path: /sys/fs/cgroup
    type: Directory
# The control socket, for `kubectl exec ... -- nriplugin status`.
- name: run
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
# The lock that keeps a second plugin of this node waiting, and the records of the values
# that updates have set, which the next pod needs.
- name: state
  hostPath:
    path: /var/lib/nriplugin
    type: DirectoryOrCreate
{{- if or .Values.nodeAccess.systemd .Values.nri.runtime.patchConfig }}
- name: dbus
  hostPath:
    path: /run/dbus
    type: Directory
{{- end }}
{{- if .Values.nodeAccess.kubeletCheckpoint }}
- name: kubelet
  hostPath:
    path: /var/lib/kubelet
    type: Directory
{{- end }}
{{- if .Values.nri.runtime.patchConfig }}
- name: containerd
  hostPath:
    path: /etc/containerd
    type: DirectoryOrCreate
- name: crio
  hostPath:
    path: /etc/crio
    type: DirectoryOrCreate
- name: turn-nri-on
  configMap:
    name: {{ include "nriplugin.fullname" . }}-turn-nri-on
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
