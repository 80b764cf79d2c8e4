{{/*
Names, labels, addresses. Names are cut so that the longest one of a CronJob stays within its 52 characters, and all
others, with a pod's number behind them, within the 63 of a DNS label.
*/}}
{{- define "rmq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 34 | trimSuffix "-" -}}
{{- end -}}

{{- define "rmq.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 34 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 34 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 34 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Takes root and component. What a selector is made of never changes: neither the version nor commonLabels. */}}
{{- define "rmq.selector" -}}
app.kubernetes.io/name: {{ include "rmq.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Takes root and component. */}}
{{- define "rmq.labels" -}}
{{ include "rmq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: rocketmq
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Takes root and component. Without versions: a new chart that changes nothing of a pod does not restart it. */}}
{{- define "rmq.podLabels" -}}
{{ include "rmq.selector" . }}
app.kubernetes.io/part-of: rocketmq
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Takes root, component, name and perhaps labels and annotations. */}}
{{- define "rmq.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "rmq.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "rmq.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rmq.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Controllers that publish where brokers are have an account of their own: nobody else has its rights. */}}
{{- define "rmq.controller.serviceAccount" -}}
{{- if .Values.roleProxy.enabled -}}
{{- default (printf "%s-controller" (include "rmq.fullname" .)) .Values.controller.serviceAccountName -}}
{{- else -}}
{{- include "rmq.serviceAccount" . -}}
{{- end -}}
{{- end -}}

{{/* Takes root and image. */}}
{{- define "rmq.image" -}}
{{- $host := ternary (printf "%s/" .image.registry) "" (not (empty .image.registry)) -}}
{{- if .image.digest -}}
{{- printf "%s%s@%s" $host .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s%s:%s" $host .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Domain under which services of the release are found. */}}
{{- define "rmq.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* Takes root, component, replicas, port and perhaps the separator: addresses of the pods by their stable names. */}}
{{- define "rmq.addresses" -}}
{{- $name := printf "%s-%s" (include "rmq.fullname" .root) .component -}}
{{- $addresses := list -}}
{{- range $n := until (int .replicas) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s-headless.%s:%d" $name $n $name (include "rmq.domain" $.root) (int $.port)) -}}
{{- end -}}
{{- join (default ";" .separator) $addresses -}}
{{- end -}}

{{- define "rmq.namesrv.addresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "namesrv" "replicas" .Values.namesrv.replicas "port" 9876) -}}
{{- end -}}

{{/* Where routes always have the brokers' own addresses. */}}
{{- define "rmq.namesrv.memberAddresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "namesrv" "replicas" .Values.namesrv.replicas "port" (include "rmq.namesrv.memberPort" .)) -}}
{{- end -}}

{{- define "rmq.namesrv.memberPort" -}}
{{- int .Values.namesrv.memberPort | default 9876 -}}
{{- end -}}

{{- define "rmq.controller.addresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "controller" "replicas" .Values.controller.replicas "port" 9878) -}}
{{- end -}}

{{- define "rmq.controller.httpAddresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "controller" "replicas" .Values.controller.replicas "port" 9881) -}}
{{- end -}}

{{- define "rmq.namesrv.httpAddresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "namesrv" "replicas" .Values.namesrv.replicas "port" 9880) -}}
{{- end -}}

{{- define "rmq.offsetManager.httpAddresses" -}}
{{- include "rmq.addresses" (dict "root" . "component" "offset-manager" "replicas" .Values.offsetManager.replicas "port" 9883) -}}
{{- end -}}

{{- define "rmq.etcd.endpoints" -}}
{{- if .Values.etcd.embedded.enabled -}}
{{- include "rmq.addresses" (dict "root" . "component" "etcd" "replicas" .Values.etcd.embedded.replicas "port" 2379) -}}
{{- else -}}
{{- join ";" .Values.etcd.endpoints -}}
{{- end -}}
{{- end -}}
