{{/*
The properties files of the servers. What the chart sets itself follows from other values, so it cannot be given in
`config` as well (see _checks.tpl).
*/}}

{{/* Where the servers keep what they must not lose. */}}
{{- define "rmq.dataDir" -}}
/var/lib/rocketmq
{{- end -}}

{{/* Where the controller sees the policies of the autoscaler. */}}
{{- define "rmq.policiesDir" -}}
/etc/rocketmq/policies
{{- end -}}

{{/* Where NameServers see the rules of role addresses. */}}
{{- define "rmq.roleAddressesDir" -}}
/etc/rocketmq/role-addresses
{{- end -}}

{{/* Where controllers see the sets whose brokers they publish, and the token with which they do. */}}
{{- define "rmq.roleProxyDir" -}}
/etc/rocketmq/role-proxy
{{- end -}}

{{- define "rmq.kubernetesDir" -}}
/etc/rocketmq/kubernetes
{{- end -}}

{{- define "rmq.historyDir" -}}
{{ include "rmq.dataDir" . }}/history
{{- end -}}

{{/*
What makes a server record, here alone: a blank folder means that nothing is. Takes root and values of the server.
A pod whose emptyDir is beyond its limit is evicted, so its history has a limit below that one.
*/}}
{{- define "rmq.historyProperties" -}}
{{- $history := .root.Values.history -}}
historyDir: {{ ternary (include "rmq.historyDir" .) "" $history.enabled | quote }}
{{- if and $history.enabled (eq $history.volume "pod") (not .values.persistence.enabled) }}
historyBytesMax: {{ include "rmq.historyBytesMax" .root }}
{{- end }}
{{- end -}}

{{/*
Three quarters of the emptyDir: the last one is for what is written between two looks, a sixteenth of the limit at most,
and for what is no history.
*/}}
{{- define "rmq.historyBytesMax" -}}
{{- $limit := .Values.history.emptyDirSizeLimit -}}
{{- $bytes := include "rmq.bytes" (dict "value" "history.emptyDirSizeLimit" "quantity" $limit) | int64 -}}
{{- $most := sub $bytes (div $bytes 4) -}}
{{- if lt $most 67108864 -}}
{{- fail (printf "history.emptyDirSizeLimit is %s, but three quarters of it are for the history, which needs 64Mi: set 86Mi or more, or history.enabled=false." $limit) -}}
{{- end -}}
{{- $most -}}
{{- end -}}

{{/* Takes value, its place in the values, and quantity, text as Kubernetes has it: the bytes. */}}
{{- define "rmq.bytes" -}}
{{- if not (regexMatch "^[1-9][0-9]{0,14}([kMGT]|[KMGT]i)?$" .quantity) -}}
{{- fail (printf "%s is %s, but the chart computes with it: set a whole number of bytes above 0, or one with k, M, G, T, Ki, Mi, Gi or Ti behind it." .value .quantity) -}}
{{- end -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $units = merge $units (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) -}}
{{- mul (regexFind "^[0-9]+" .quantity | int64) (get $units (regexFind "[a-zA-Z]*$" .quantity) | int64) -}}
{{- end -}}

{{/*
An eighth of the memory limit for each of what peers can make a server keep, as the server itself takes it from its control
group; 64Mi at least and 512Mi at most. Without a limit, or with one that is no whole number (1.5Gi), the server does that.
Takes values of the server.
*/}}
{{- define "rmq.byteLimits" -}}
{{- $resources := .values.resources | default dict -}}
{{- with get ($resources.limits | default dict) "memory" -}}
{{- $limit := include "rmq.propertyText" . -}}
{{- if regexMatch "^[1-9][0-9]{0,14}([kMGT]|[KMGT]i)?$" $limit -}}
{{- $bytes := include "rmq.bytes" (dict "value" "resources.limits.memory" "quantity" $limit) | int64 -}}
{{- $share := max 67108864 (min 536870912 (div $bytes 8)) -}}
{{- range list "partialFrameBytesMax" "responseBufferBytesMax" "queuedBytesMax" }}
{{ . }}: {{ $share }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.tlsProperties" -}}
{{- $folder := "/etc/rocketmq/tls" -}}
{{- if .Values.tls.enabled -}}
tls.server.mode: {{ .Values.tls.mode }}
tls.test.mode.enable: false
tls.server.certPath: {{ $folder }}/tls.crt
tls.server.keyPath: {{ $folder }}/tls.key
tls.server.need.client.auth: {{ .Values.tls.clientAuth | quote }}
{{- if ne .Values.tls.clientAuth "none" }}
tls.server.authClient: true
tls.server.trustCertPath: {{ $folder }}/ca.crt
{{- end }}
{{ include "rmq.tlsToBrokers" . }}
{{- end -}}
{{- end -}}

{{/* TLS of requests to brokers, where tls.enabled. */}}
{{- define "rmq.tlsToBrokers" -}}
{{- $folder := "/etc/rocketmq/tls" -}}
tls.enable: {{ .Values.tls.toBrokers }}
{{- if .Values.tls.toBrokers }}
tls.client.certPath: {{ $folder }}/tls.crt
tls.client.keyPath: {{ $folder }}/tls.key
{{- end }}
{{- if .Values.tls.verifyBrokers }}
tls.client.authServer: true
tls.client.trustCertPath: {{ $folder }}/ca.crt
{{- end }}
{{- end -}}

{{/* Takes root and values of the server: what NameServers and controllers have. */}}
{{- define "rmq.serverProperties" -}}
bindAddress: 0.0.0.0
httpBindAddress: 0.0.0.0
logFormat: json
enableShutdownGracefully: {{ gt (int .values.drainSeconds) 0 }}
shutdownWaitTimeSeconds: {{ .values.drainSeconds }}
{{ include "rmq.byteLimits" . }}
{{ include "rmq.historyProperties" . }}
{{ include "rmq.tlsProperties" .root }}
{{- if .root.Values.admin.tokenSecret.name }}
httpAdminTokenFile: /etc/rocketmq/admin/token
{{- end }}
{{ include "rmq.console.properties" .root }}
{{- with .root.Values.brokers.auth.addresses }}
brokerAccessAddresses: {{ join ";" . | quote }}
{{- end }}
{{- end -}}

{{- define "rmq.namesrv.own" -}}
listenPort: 9876
httpPort: 9880
kvConfigPath: {{ include "rmq.dataDir" . }}/kvConfig.json
{{- if .Values.namesrv.addressServer.enabled }}
lookupPort: 8080
{{- end }}
{{- with .Values.namesrv.memberPort }}
memberPort: {{ . }}
{{- end }}
{{- if include "rmq.namesrv.roleAddressMap" . }}
roleAddressFile: {{ include "rmq.roleAddressesDir" . }}/role-addresses.toml
{{- end }}
{{- with .Values.namesrv.addressServer }}
namesrvAddrList: {{ .addresses | join ";" | default (include "rmq.namesrv.addresses" $) | quote }}
{{- end }}
{{- if .Values.namesrv.askOthers }}
peers: {{ include "rmq.namesrv.memberAddresses" . | quote }}
{{- end }}
{{ include "rmq.serverProperties" (dict "root" . "values" .Values.namesrv) }}
{{- end -}}

{{- define "rmq.controller.own" -}}
listenPort: 9878
httpPort: 9881
controllerGroup: {{ .Values.controller.group | quote }}
controllerStore: {{ .Values.controller.store }}
{{- if eq .Values.controller.store "etcd" }}
etcdEndpoints: {{ include "rmq.etcd.endpoints" . | quote }}
{{- with .Values.etcd.tls }}
{{- if .existingSecret }}
etcdCaPath: /etc/rocketmq/etcd-tls/ca.crt
{{- if .clientCertificate }}
etcdCertPath: /etc/rocketmq/etcd-tls/tls.crt
etcdKeyPath: /etc/rocketmq/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- else }}
controllerStorePath: {{ include "rmq.dataDir" . }}/store
{{- end }}
{{- with .Values.controller.scaling }}
namesrvAddr: {{ ternary (.nameServers | join ";" | default (include "rmq.namesrv.memberAddresses" $)) "" .enabled | quote }}
{{- if .policies.existingConfigMap }}
scalingPolicyFile: {{ include "rmq.policiesDir" $ }}/policies.toml
{{- end }}
{{- end }}
{{- with .Values.controller.roleCheckPort }}
roleCheckPort: {{ . }}
{{- end }}
{{- if .Values.roleProxy.enabled }}
kubernetesSetsFile: {{ include "rmq.roleProxyDir" . }}/sets.json
kubernetesCredentialsDir: {{ include "rmq.kubernetesDir" . }}
{{- end }}
{{- if .Values.analytics.enabled }}
analyticsDir: {{ include "rmq.historyDir" . }}
{{- end }}
{{ include "rmq.serverProperties" (dict "root" . "values" .Values.controller) }}
{{- end -}}

{{- define "rmq.offset-manager.own" -}}
{{- $manager := .Values.offsetManager -}}
httpPort: 9883
httpBindAddress: 0.0.0.0
logFormat: json
managerGroup: {{ $manager.group | quote }}
store: {{ $manager.store }}
storePath: {{ include "rmq.dataDir" . }}/offsets
repair: {{ $manager.repair }}
repairGroups: {{ $manager.repairGroups | quote }}
{{- if eq $manager.store "etcd" }}
etcdEndpoints: {{ join ";" $manager.etcd.endpoints | quote }}
{{- with $manager.etcd.tls }}
{{- if .existingSecret }}
etcdCaPath: /etc/rocketmq/etcd-tls/ca.crt
{{- if .clientCertificate }}
etcdCertPath: /etc/rocketmq/etcd-tls/tls.crt
etcdKeyPath: /etc/rocketmq/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $manager.follow "controllers" }}
controllerHttpAddr: {{ $manager.controllers | join ";" | default (include "rmq.controller.httpAddresses" .) | quote }}
{{- else if eq $manager.follow "nameServers" }}
namesrvAddr: {{ $manager.nameServers | join ";" | default (include "rmq.namesrv.memberAddresses" .) | quote }}
{{- end }}
httpAdminTokenFile: /etc/rocketmq/admin/token
{{- if $manager.clientTokenSecret.name }}
clientTokenFile: /etc/rocketmq/clients/token
{{- end }}
{{ include "rmq.historyProperties" (dict "root" . "values" $manager) }}
{{- if .Values.tls.enabled }}
tls.test.mode.enable: false
{{ include "rmq.tlsToBrokers" . }}
{{- end }}
{{- with .Values.brokers.auth.addresses }}
brokerAccessAddresses: {{ join ";" . | quote }}
{{- end }}
{{- end -}}

{{/* A value as properties text: whole numbers without exponent, backslashes as Java reads them. */}}
{{- define "rmq.propertyText" -}}
{{- if kindIs "float64" . -}}
{{- if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
{{- toString . | replace "\\" "\\\\" -}}
{{- end -}}
{{- end -}}

{{/* Takes own (YAML of the chart's properties) and config: the lines of the file, sorted by key. */}}
{{- define "rmq.propertiesFile" -}}
{{- $all := merge (dict) .config (fromYaml .own) -}}
{{- range $key := keys $all | sortAlpha -}}
{{ $key }}={{ include "rmq.propertyText" (get $all $key) }}
{{ end -}}
{{- end -}}
