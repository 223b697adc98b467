{{/*
The DaemonSets of the release, as the key `sets` of a YAML document: the pools, in their
order, and the remaining nodes. `before` has the node selectors of the pools that come
before it, whose nodes it leaves to them.
*/}}
{{- define "nriplugin.sets" -}}
{{- $before := list -}}
{{- $sets := list -}}
{{- $names := list -}}
{{- range .Values.pools -}}
{{- if has .name $names -}}
{{- fail (printf "pools: %s is there twice, expected different names" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $config := mustMergeOverwrite (deepCopy $.Values.config) (deepCopy (default dict .config)) -}}
{{- $sets = append $sets (dict
    "name" (printf "%s-%s" (include "nriplugin.fullname" $) .name)
    "component" .name
    "nodeSelector" (merge (deepCopy .nodeSelector) $.Values.nodeSelector)
    "before" $before
    "config" $config
    "resources" (default $.Values.resources .resources)) -}}
{{- $before = append $before .nodeSelector -}}
{{- end -}}
{{- if .Values.remainingNodes -}}
{{- $sets = append $sets (dict
    "name" (include "nriplugin.fullname" .)
    "component" "remaining-nodes"
    "nodeSelector" .Values.nodeSelector
    "before" $before
    "config" .Values.config
    "resources" .Values.resources) -}}
{{- end -}}
{{- dict "sets" $sets | toYaml -}}
{{- end -}}

{{/*
The affinity of a DaemonSet: the user's, and no node that an earlier pool selects. A node
is outside of a pool if one of the selector's labels differs, so each term is multiplied
by the labels of each earlier pool.
*/}}
{{- define "nriplugin.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $node := default dict $affinity.nodeAffinity -}}
{{- $required := default dict $node.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $terms := default (list dict) $required.nodeSelectorTerms -}}
{{- range $selector := .set.before -}}
{{- $multiplied := list -}}
{{- range $term := $terms -}}
{{- range $key, $value := $selector -}}
{{- $other := dict "key" $key "operator" "NotIn" "values" (list $value) -}}
{{- $expressions := append (default list $term.matchExpressions) $other -}}
{{- $multiplied = append $multiplied (merge (dict "matchExpressions" $expressions) $term) -}}
{{- end -}}
{{- end -}}
{{- $terms = $multiplied -}}
{{- end -}}
{{- if .set.before -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- if $affinity -}}
{{- toYaml $affinity -}}
{{- end -}}
{{- end -}}
