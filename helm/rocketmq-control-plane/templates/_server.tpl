{{/*
What servers have in common as pods. Each takes root, component, values, program, port, httpPort,
and env: YAML of its own environment variables. `port` is 0 for a server without RocketMQ peers.
*/}}
{{- define "rmq.server.statefulset" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "rmq.fullname" $root) .component -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "rmq.metadata" (dict "root" $root "component" .component "name" $name) | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  serviceName: {{ $name }}-headless
  podManagementPolicy: Parallel
  minReadySeconds: {{ .values.minReadySeconds }}
  revisionHistoryLimit: 5
  updateStrategy:
    type: RollingUpdate
  selector:
    matchLabels:
      {{- include "rmq.selector" . | nindent 6 }}
  {{- if .values.persistence.enabled }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: {{ .values.persistence.whenDeleted }}
    whenScaled: {{ .values.persistence.whenScaled }}
  volumeClaimTemplates:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: data
        # Of what never changes: Kubernetes refuses another template.
        labels:
          {{- include "rmq.selector" . | nindent 10 }}
        {{- with .values.persistence.annotations }}
        annotations:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .values.persistence.storageClass }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources:
          requests:
            storage: {{ .values.persistence.size }}
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "rmq.podLabels" . | nindent 8 }}
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        checksum/config: {{ include "rmq.server.propertiesOfPod" . | sha256sum }}
        {{- if include "rmq.server.publishesBrokers" . }}
        checksum/sets: {{ include "rmq.roleProxy.sets" $root | sha256sum }}
        {{- end }}
        {{- with merge (dict) (.values.podAnnotations | default dict) ($root.Values.commonAnnotations | default dict) }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "rmq.server.podSpec" . | nindent 6 }}
{{- end -}}

{{- define "rmq.server.properties" -}}
{{- include "rmq.propertiesFile" (dict "own" (include (printf "rmq.%s.own" .component) .root) "config" .values.config) -}}
{{- end -}}

{{/* What restarts a pod when it is another: not which servers its console shows. */}}
{{- define "rmq.server.propertiesOfPod" -}}
{{- regexReplaceAll "(?m)^consolePeers=.*\\n" (include "rmq.server.properties" .) "" -}}
{{- end -}}

{{- define "rmq.server.podSpec" -}}
{{- $root := .root -}}
serviceAccountName: {{ include (ternary "rmq.controller.serviceAccount" "rmq.serviceAccount" (eq .component "controller")) $root }}
automountServiceAccountToken: false
# The variables of service links would be read as properties: RMQ_NAMESRV_HTTP_PORT=tcp://...
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- include "rmq.server.placement" . }}
containers:
  - name: {{ .component }}
    image: {{ include "rmq.image" (dict "root" $root "image" $root.Values.image) }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [{{ .program }}, -c, /etc/rocketmq/server/{{ .component }}.conf]
    securityContext:
      {{- toYaml $root.Values.containerSecurityContext | nindent 6 }}
    env:
      {{- .env | nindent 6 }}
      {{- if $root.Values.tls.keyPasswordKey }}
      {{- include "rmq.server.keyPasswords" . | nindent 6 }}
      {{- end }}
      {{- if $root.Values.brokers.auth.existingSecret }}
      {{- include "rmq.server.brokerKeys" . | nindent 6 }}
      {{- end }}
      {{- with .values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      {{- with .port }}
      - name: remoting
        containerPort: {{ . }}
      {{- end }}
      - name: http
        containerPort: {{ .httpPort }}
      {{- if (.values.addressServer | default dict).enabled }}
      - name: nsaddr
        containerPort: 8080
      {{- end }}
      {{- with .values.memberPort }}
      - name: member
        containerPort: {{ . }}
      {{- end }}
      {{- with .values.roleCheckPort }}
      - name: role-check
        containerPort: {{ . }}
      {{- end }}
    startupProbe:
      {{- include "rmq.server.probe" (dict "path" "/healthz" "times" .values.probes.startup) | nindent 6 }}
    livenessProbe:
      {{- include "rmq.server.probe" (dict "path" "/livez" "times" .values.probes.liveness) | nindent 6 }}
    readinessProbe:
      {{- include "rmq.server.probe" (dict "path" "/readyz" "times" .values.probes.readiness) | nindent 6 }}
    {{- if gt (int .values.preStopSeconds) 0 }}
    lifecycle:
      # Until nobody is sent here any more. By a command, which Kubernetes before 1.30 knows too.
      preStop:
        exec:
          command: [sleep, {{ .values.preStopSeconds | quote }}]
    {{- end }}
    resources:
      {{- toYaml .values.resources | nindent 6 }}
    volumeMounts:
      {{- include "rmq.server.mounts" . | nindent 6 }}
volumes:
  {{- include "rmq.server.volumes" . | nindent 2 }}
{{- end -}}

{{- define "rmq.server.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
{{ toYaml .times }}
{{- end -}}

{{- define "rmq.server.placement" -}}
{{- if ne .values.spread "none" }}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "rmq.selector" . | nindent 8 }}
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (eq .values.spread "hard") }}
    labelSelector:
      matchLabels:
        {{- include "rmq.selector" . | nindent 8 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the names of its environment variables begin with. */}}
{{- define "rmq.server.prefix" -}}
RMQ_{{ .component | upper | replace "-" "_" }}
{{- end -}}

{{- define "rmq.server.keyPasswords" -}}
{{- $prefix := include "rmq.server.prefix" . -}}
{{- range $side := ternary (list "SERVER" "CLIENT") (list "CLIENT") (not (empty .port)) }}
- name: {{ $prefix }}_TLS_{{ $side }}_KEY_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $.root.Values.tls.existingSecret }}
      key: {{ $.root.Values.tls.keyPasswordKey }}
{{- end }}
{{- end -}}

{{- define "rmq.server.brokerKeys" -}}
{{- $prefix := include "rmq.server.prefix" . -}}
{{- with .root.Values.brokers.auth }}
- name: {{ $prefix }}_BROKER_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .accessKeyKey }}
- name: {{ $prefix }}_BROKER_SECRET_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .secretKeyKey }}
{{- end }}
{{- end -}}

{{/* Name of the secret by which etcd is verified; blank for none. */}}
{{- define "rmq.server.etcdTls" -}}
{{- if and (eq .component "controller") (eq .values.store "etcd") -}}{{ .root.Values.etcd.tls.existingSecret }}{{- end -}}
{{- if and (eq .component "offset-manager") (eq .values.store "etcd") -}}{{ .values.etcd.tls.existingSecret }}{{- end -}}
{{- end -}}

{{/* Clients of an offset manager have a token of their own. */}}
{{- define "rmq.server.hasClientToken" -}}
{{- if and (eq .component "offset-manager") .values.clientTokenSecret.name -}}true{{- end -}}
{{- end -}}

{{- define "rmq.server.hasReadToken" -}}
{{- if and (ne .component "offset-manager") .root.Values.console.enabled .root.Values.console.readTokenSecret.name -}}true{{- end -}}
{{- end -}}

{{- define "rmq.server.hasPolicies" -}}
{{- if and (eq .component "controller") .values.scaling.policies.existingConfigMap -}}true{{- end -}}
{{- end -}}

{{/* Name of the ConfigMap with the rules of role addresses; blank without rules. */}}
{{- define "rmq.namesrv.roleAddressMap" -}}
{{- with .Values.namesrv.roleAddresses -}}
{{- if .rules -}}{{ include "rmq.fullname" $ }}-role-addresses{{- else -}}{{ .existingConfigMap }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.server.hasRoleAddresses" -}}
{{- if and (eq .component "namesrv") (include "rmq.namesrv.roleAddressMap" .root) -}}true{{- end -}}
{{- end -}}

{{- define "rmq.server.publishesBrokers" -}}
{{- if and (eq .component "controller") .root.Values.roleProxy.enabled -}}true{{- end -}}
{{- end -}}

{{- define "rmq.server.mounts" -}}
{{- $values := .root.Values -}}
- name: config
  mountPath: /etc/rocketmq/server
  readOnly: true
- name: data
  mountPath: {{ include "rmq.dataDir" . }}
- name: tmp
  mountPath: /tmp
{{- if and $values.history.enabled (eq $values.history.volume "shared") }}
- name: history
  mountPath: {{ include "rmq.historyDir" . }}
{{- end }}
{{- if $values.tls.enabled }}
- name: tls
  mountPath: /etc/rocketmq/tls
  readOnly: true
{{- end }}
{{- if $values.admin.tokenSecret.name }}
- name: admin
  mountPath: /etc/rocketmq/admin
  readOnly: true
{{- end }}
{{- if include "rmq.server.hasReadToken" . }}
- name: console
  mountPath: /etc/rocketmq/console
  readOnly: true
{{- end }}
{{- if include "rmq.server.hasPolicies" . }}
- name: policies
  mountPath: {{ include "rmq.policiesDir" . }}
  readOnly: true
{{- end }}
{{- if include "rmq.server.hasRoleAddresses" . }}
- name: role-addresses
  mountPath: {{ include "rmq.roleAddressesDir" . }}
  readOnly: true
{{- end }}
{{- if include "rmq.server.publishesBrokers" . }}
- name: role-proxy-sets
  mountPath: {{ include "rmq.roleProxyDir" . }}
  readOnly: true
- name: kubernetes
  mountPath: {{ include "rmq.kubernetesDir" . }}
  readOnly: true
{{- end }}
{{- if include "rmq.server.hasClientToken" . }}
- name: clients
  mountPath: /etc/rocketmq/clients
  readOnly: true
{{- end }}
{{- if include "rmq.server.etcdTls" . }}
- name: etcd-tls
  mountPath: /etc/rocketmq/etcd-tls
  readOnly: true
{{- end }}
{{- with .values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rmq.server.volumes" -}}
{{- $values := .root.Values -}}
- name: config
  configMap:
    name: {{ include "rmq.fullname" .root }}-{{ .component }}
- name: tmp
  emptyDir: {}
{{- if not .values.persistence.enabled }}
- name: data
  emptyDir:
    sizeLimit: {{ $values.history.emptyDirSizeLimit }}
{{- end }}
{{- if and $values.history.enabled (eq $values.history.volume "shared") }}
- name: history
  persistentVolumeClaim:
    claimName: {{ include "rmq.historyClaim" .root }}
{{- end }}
{{- if $values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ $values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- with $values.admin.tokenSecret }}
{{- if .name }}
- name: admin
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: token
{{- end }}
{{- end }}
{{- if include "rmq.server.hasReadToken" . }}
- name: console
  secret:
    secretName: {{ $values.console.readTokenSecret.name }}
    defaultMode: 0440
    items:
      - key: {{ $values.console.readTokenSecret.key }}
        path: token
{{- end }}
{{- if include "rmq.server.hasPolicies" . }}
- name: policies
  configMap:
    name: {{ .values.scaling.policies.existingConfigMap }}
    items:
      - key: {{ .values.scaling.policies.key }}
        path: policies.toml
{{- end }}
{{- if include "rmq.server.hasRoleAddresses" . }}
- name: role-addresses
  configMap:
    name: {{ include "rmq.namesrv.roleAddressMap" .root }}
    items:
      - key: {{ ternary "role-addresses.toml" .values.roleAddresses.key (not (empty .values.roleAddresses.rules)) }}
        path: role-addresses.toml
{{- end }}
{{- if include "rmq.server.publishesBrokers" . }}
- name: role-proxy-sets
  configMap:
    name: {{ include "rmq.fullname" .root }}-role-proxy
# The token of the account, for this container alone; Kubernetes renews it.
- name: kubernetes
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
{{- end }}
{{- if include "rmq.server.hasClientToken" . }}
- name: clients
  secret:
    secretName: {{ .values.clientTokenSecret.name }}
    defaultMode: 0440
    items:
      - key: {{ .values.clientTokenSecret.key }}
        path: token
{{- end }}
{{- if include "rmq.server.etcdTls" . }}
- name: etcd-tls
  secret:
    secretName: {{ include "rmq.server.etcdTls" . }}
    defaultMode: 0440
{{- end }}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rmq.historyClaim" -}}
{{- default (printf "%s-history" (include "rmq.fullname" .)) .Values.history.shared.existingClaim -}}
{{- end -}}

{{- define "rmq.server.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "rmq.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s" (include "rmq.fullname" .root) .component)) | nindent 2 }}
data:
  {{ .component }}.conf: |
    {{- include "rmq.server.properties" . | trim | nindent 4 }}
{{- end -}}

{{- define "rmq.server.budget" -}}
{{- if .values.podDisruptionBudget.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "rmq.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s" (include "rmq.fullname" .root) .component)) | nindent 2 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  # One that is ill anyway must not keep a node from being emptied.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "rmq.selector" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{/* Also takes purpose, spec and perhaps annotations. */}}
{{- define "rmq.server.service" -}}
{{- $suffix := ternary "" (printf "-%s" .purpose) (eq .purpose "http") -}}
apiVersion: v1
kind: Service
metadata:
  {{- $metadata := dict "root" .root "component" .component "annotations" .values.service.annotations -}}
  {{- $_ := set $metadata "name" (printf "%s-%s%s" (include "rmq.fullname" .root) .component $suffix) -}}
  {{- $_ := set $metadata "labels" (dict "rocketmq-service" .purpose) -}}
  {{- include "rmq.metadata" $metadata | nindent 2 }}
spec:
  {{- .spec | nindent 2 }}
  selector:
    {{- include "rmq.selector" . | nindent 4 }}
{{- end -}}
