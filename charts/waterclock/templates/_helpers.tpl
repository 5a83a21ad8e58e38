{{/* Names that everything agrees on. They are fixed: a cluster has one installation. */}}
{{- define "waterclock.name" -}}waterclock-injector{{- end }}

{{- define "waterclock.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The image of the semantic cache has what compares texts besides. */}}
{{- define "waterclock.cacheImage" -}}
{{- .Values.cache.image | default (printf "%s:%s-cache" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)) -}}
{{- end }}

{{/* What never changes of an object's labels; selectors are made of it. */}}
{{- define "waterclock.selector" -}}
app.kubernetes.io/name: waterclock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: injector
{{- end }}

{{- define "waterclock.cacheSelector" -}}
app.kubernetes.io/name: waterclock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: cache
{{- end }}

{{- define "waterclock.labels" -}}
{{ include "waterclock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: waterclock
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "waterclock.cacheLabels" -}}
{{ mergeOverwrite (include "waterclock.labels" . | fromYaml) (include "waterclock.cacheSelector" . | fromYaml) | toYaml }}
{{- end }}

{{/* A namespace stands once in the list, also when a value repeats one, since a selector's values may not. */}}
{{- define "waterclock.excludedNamespaces" -}}
{{- concat (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace) .Values.excludedNamespaces | uniq | toYaml -}}
{{- end }}

{{/*
The policy as the program reads it. Helm's YAML reader takes the key `on` of retries for the boolean `true`; it is
written back under its name.
*/}}
{{- define "waterclock.policy" -}}
{{- if kindIs "string" .Values.policy -}}
{{- if hasKey (fromYaml .Values.policy) "Error" -}}
{{- fail (printf "policy: this text is not valid YAML: %s" (fromYaml .Values.policy).Error) -}}
{{- end -}}
{{ .Values.policy }}
{{- else -}}
{{- $budget := (.Values.policy | default dict).budget | default dict -}}
{{- if and $budget.carry (not $budget.order) (gt (len (omit ($budget.stages | default dict) "slack")) 1) -}}
{{- fail "policy.budget.carry: depends on the order of the stages, and Helm sorts them; add policy.budget.order, a list of their names" -}}
{{- end -}}
{{ regexReplaceAll "(?m)^([ -]*)\"true\":" (.Values.policy | default dict | toYaml) "${1}\"on\":" }}
{{- end -}}
{{- end }}

{{- define "waterclock.settings" -}}
image: {{ include "waterclock.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ pick .Values "intercept" "oldClusters" "prometheusAnnotations" "events" "sidecar" "redirect" "noProxy" "cluster" | toYaml }}
excludedNamespaces:
  {{- include "waterclock.excludedNamespaces" . | nindent 2 }}
webhookName: {{ include "waterclock.name" . }}
serviceName: {{ include "waterclock.name" . }}
namespace: {{ .Release.Namespace }}
certificates:
  {{- omit .Values.certificates "certManager" | toYaml | nindent 2 }}
{{- end }}
