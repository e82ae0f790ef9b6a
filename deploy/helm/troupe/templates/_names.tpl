{{/* Names and labels. */}}

{{- define "troupe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "troupe.fullname" -}}
{{- $name := include "troupe.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which objects of this release find its pods. They never change: a workload cannot be given others. */}}
{{- define "troupe.selector" -}}
app.kubernetes.io/name: {{ include "troupe.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "troupe.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "troupe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "troupe.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "troupe.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "troupe.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What the store's kind decides. */}}
{{- define "troupe.external" -}}
{{- if eq .Values.store.kind "external" -}}true{{- end -}}
{{- end -}}

{{- define "troupe.workload" -}}
{{- if include "troupe.external" . -}}Deployment{{- else -}}StatefulSet{{- end -}}
{{- end -}}

{{/* The number of processes without autoscaling, and the least with it. */}}
{{- define "troupe.replicas" -}}
{{- if .Values.replicas -}}
{{- int .Values.replicas -}}
{{- else if include "troupe.external" . -}}
3
{{- else -}}
1
{{- end -}}
{{- end -}}

{{- define "troupe.fewest" -}}
{{- if .Values.autoscaling.enabled -}}{{ int .Values.autoscaling.minReplicas }}{{- else -}}{{ include "troupe.replicas" . }}{{- end -}}
{{- end -}}

{{/* What a process needs at most after SIGTERM: its delay, its wait, and 11 s for its end (afterDrain in cmd/troupe/serve.go). */}}
{{- define "troupe.grace" -}}
{{- add (int .Values.drain.delaySeconds) (int .Values.drain.waitSeconds) 11 -}}
{{- end -}}

{{/* The scheme of the pods, which is the name of their port. */}}
{{- define "troupe.scheme" -}}
{{- if .Values.tls.secretName -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* The names under which clients reach the server, as a list in JSON: those of routes but wildcards, and the Service's own. */}}
{{- define "troupe.hosts" -}}
{{- $hosts := list -}}
{{- if .Values.httpRoute.enabled -}}
{{- range .Values.httpRoute.hostnames -}}
{{- if not (hasPrefix "*." .) -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- range .Values.ingress.hosts -}}
{{- if not (hasPrefix "*." .) -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $name := include "troupe.fullname" . -}}
{{- $hosts = concat $hosts (list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain)) -}}
{{- uniq $hosts | toJson -}}
{{- end -}}

{{/* The file of --config. */}}
{{- define "troupe.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $hosts := concat (default list (get $config "allow-host")) (include "troupe.hosts" . | fromJsonArray) | uniq -}}
{{- $_ := set $config "allow-host" $hosts -}}
{{- toYaml $config -}}
{{- end -}}
