{{/*
What a schema cannot say: values that do not go together. Each sentence names the values and what to do.
*/}}
{{- define "rmq.checks" -}}
{{- include "rmq.checks.controller" . -}}
{{- include "rmq.checks.etcd" . -}}
{{- include "rmq.checks.tls" . -}}
{{- include "rmq.checks.brokers" . -}}
{{- include "rmq.checks.history" . -}}
{{- include "rmq.checks.analytics" . -}}
{{- include "rmq.checks.external" . -}}
{{- include "rmq.checks.roleAddresses" . -}}
{{- include "rmq.checks.roleProxy" . -}}
{{- include "rmq.checks.offsetManager" . -}}
{{- include "rmq.checks.console" . -}}
{{- include "rmq.checks.config" (dict "server" "namesrv" "values" .Values.namesrv "own" (include "rmq.namesrv.own" .)) -}}
{{- include "rmq.checks.stop" (dict "server" "namesrv" "values" .Values.namesrv) -}}
{{- if .Values.controller.enabled -}}
{{- include "rmq.checks.config" (dict "server" "controller" "values" .Values.controller "own" (include "rmq.controller.own" .)) -}}
{{- include "rmq.checks.stop" (dict "server" "controller" "values" .Values.controller) -}}
{{- end -}}
{{- if .Values.offsetManager.enabled -}}
{{- include "rmq.checks.config" (dict "server" "offsetManager" "values" .Values.offsetManager "own" (include "rmq.offset-manager.own" .)) -}}
{{- end -}}
{{- if eq .Values.profile "production" -}}
{{- include "rmq.checks.production" . -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.controller" -}}
{{- with .Values.controller -}}
{{- if and .enabled (eq .store "embedded") (gt (int .replicas) 1) -}}
{{- fail (printf "controller.replicas is %d, but controller.store=embedded is a file of one controller alone: set controller.store=etcd, or controller.replicas=1." (int .replicas)) -}}
{{- end -}}
{{- if and .scaling.policies.existingConfigMap (not .scaling.enabled) -}}
{{- fail "controller.scaling.policies.existingConfigMap is set, but controller.scaling.enabled is false: no policy would change anything." -}}
{{- end -}}
{{- if and .scaling.nameServers (not .scaling.enabled) -}}
{{- fail "controller.scaling.nameServers is set, but controller.scaling.enabled is false: nobody would look a topic up." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.etcd" -}}
{{- $uses := and .Values.controller.enabled (eq .Values.controller.store "etcd") -}}
{{- with .Values.etcd -}}
{{- if and $uses (not .endpoints) (not .embedded.enabled) -}}
{{- fail "controller.store is etcd, but there is no etcd: set etcd.endpoints to its members as host:port, or etcd.embedded.enabled=true for a trial." -}}
{{- end -}}
{{- if and .embedded.enabled .endpoints -}}
{{- fail "etcd.endpoints and etcd.embedded.enabled are both set: decide for one etcd." -}}
{{- end -}}
{{- if and .embedded.enabled (not $uses) -}}
{{- fail "etcd.embedded.enabled is true, but nobody would use it: set controller.enabled=true and controller.store=etcd." -}}
{{- end -}}
{{- if and .embedded.enabled (or .auth.existingSecret .tls.existingSecret) -}}
{{- fail "etcd.auth and etcd.tls are for etcd.endpoints: the embedded etcd has neither users nor TLS." -}}
{{- end -}}
{{- if and .tls.clientCertificate (not .tls.existingSecret) -}}
{{- fail "etcd.tls.clientCertificate is true, but etcd.tls.existingSecret names no secret with the certificate." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.tls" -}}
{{- with .Values.tls -}}
{{- if and .enabled (not .existingSecret) -}}
{{- fail "tls.enabled is true, but tls.existingSecret names no secret with tls.crt and tls.key." -}}
{{- end -}}
{{- if and (not .enabled) (or (ne .mode "permissive") (ne .clientAuth "none") .toBrokers .verifyBrokers .existingSecret) -}}
{{- fail "tls.mode, tls.clientAuth, tls.toBrokers, tls.verifyBrokers and tls.existingSecret need tls.enabled=true: without it nobody would be asked for TLS." -}}
{{- end -}}
{{- if and .verifyBrokers (not .toBrokers) -}}
{{- fail "tls.verifyBrokers needs tls.toBrokers=true: who speaks no TLS shows no certificate." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.brokers" -}}
{{- with .Values.brokers.auth -}}
{{- if and .existingSecret (not .addresses) (not $.Values.tls.verifyBrokers) -}}
{{- fail "brokers.auth.existingSecret is set, but not for whom requests are signed: set brokers.auth.addresses to the addresses or networks of the brokers, or tls.verifyBrokers=true." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.history" -}}
{{- with .Values.history -}}
{{- if and $.Values.analytics.enabled (not (and .enabled (eq .volume "shared"))) -}}
{{- fail "analytics.enabled needs history.enabled=true and history.volume=shared: the jobs read what all servers wrote." -}}
{{- end -}}
{{- if and .shared.existingClaim (ne .volume "shared") -}}
{{- fail "history.shared.existingClaim is set, but history.volume is not shared: nothing would be written to that claim." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.analytics" -}}
{{- with .Values.analytics -}}
{{- if and .enabled (not (regexMatch "^local(\\[[^]]+\\])?$" .master)) -}}
{{- fail (printf "analytics.master is %s, but the jobs bind loopback and may talk to nobody: set local[N], so many cores of the pod's node. For a cluster, run rmq-analytics on a machine of its own that has the claim." .master) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.external" -}}
{{- with .Values.namesrv.external -}}
{{- $ports := len .nodePorts -}}
{{- if and $ports (ne $ports (int $.Values.namesrv.replicas)) -}}
{{- fail (printf "namesrv.external.nodePorts has %d ports for %d NameServers: give one for each, or none." $ports (int $.Values.namesrv.replicas)) -}}
{{- end -}}
{{- if and $ports (ne .type "NodePort") -}}
{{- fail "namesrv.external.nodePorts needs namesrv.external.type=NodePort." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.roleAddresses" -}}
{{- with .Values.namesrv -}}
{{- if and .roleAddresses.rules .roleAddresses.existingConfigMap -}}
{{- fail "namesrv.roleAddresses.rules and namesrv.roleAddresses.existingConfigMap are both set: decide for one place of the rules." -}}
{{- end -}}
{{- if and .roleAddresses.rules (not (contains "[[roleAddress]]" .roleAddresses.rules)) -}}
{{- fail "namesrv.roleAddresses.rules is no text with [[roleAddress]] in it: write the rules as docs/role-addresses.md shows." -}}
{{- end -}}
{{- if has (int .memberPort) (list 9876 9880 8080) -}}
{{- fail (printf "namesrv.memberPort is %d, which the NameServers have already: choose another one, such as 9866." (int .memberPort)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.roleProxy" -}}
{{- $port := int .Values.controller.roleCheckPort -}}
{{- if has $port (list 9878 9881) -}}
{{- fail (printf "controller.roleCheckPort is %d, which the controllers have already: choose another one, such as 9879." $port) -}}
{{- end -}}
{{- with .Values.roleProxy -}}
{{- if .enabled -}}
{{- if not (and $.Values.controller.enabled $port) -}}
{{- fail "roleProxy.enabled is true, but it acts on what controllers answer: set controller.enabled=true and controller.roleCheckPort=9879." -}}
{{- end -}}
{{- if not .sets -}}
{{- fail "roleProxy.enabled is true, but roleProxy.sets names no broker set: it would serve nobody." -}}
{{- end -}}
{{- $account := include "rmq.controller.serviceAccount" $ -}}
{{- $isNamed := or $.Values.serviceAccount.create $.Values.controller.serviceAccountName -}}
{{- if or (not $isNamed) (has $account (list "default" (include "rmq.serviceAccount" $))) -}}
{{- fail "roleProxy.enabled needs serviceAccount.create=true, or an account of the controllers alone in controller.serviceAccountName: the rights on EndpointSlices must not be those of other pods." -}}
{{- end -}}
{{- include "rmq.checks.roleProxySets" .sets -}}
{{- include "rmq.checks.roleProxyConnections" . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.roleProxySets" -}}
{{- $names := list -}}
{{- $ports := list -}}
{{- range . -}}
{{- if has .name $names -}}
{{- fail (printf "roleProxy.sets has two sets %s: each has one role address." .name) -}}
{{- end -}}
{{- $port := int .port -}}
{{- range $other := $ports -}}
{{- if has (sub $port $other | int) (list -2 0 2) -}}
{{- fail (printf "roleProxy.sets: ports %d and %d are the same or differ by 2, and clients with vipChannelEnabled use the port - 2: choose others." $other $port) -}}
{{- end -}}
{{- end -}}
{{- if has (int .port) (list 8404 19879) -}}
{{- fail (printf "roleProxy.sets: port %d is that of HAProxy's health or of its own checks: choose another one." (int .port)) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $ports = append $ports (int .port) -}}
{{- end -}}
{{- end -}}

{{/*
Takes the values of the proxy. 40 KiB for each connection: two buffers of 16 KiB, and what HAProxy and the kernel keep. Two
files for each: runtimes of containers give 524,288 or more, and HAProxy does not start with fewer than it wants.
*/}}
{{- define "rmq.checks.roleProxyConnections" -}}
{{- $proxy := . -}}
{{- $all := mul (len .sets) (int .connectionsMax) -}}
{{- if gt $all 250000 -}}
{{- fail (printf "roleProxy.connectionsMax is %d for each of %d sets, but one HAProxy has files for 250000 connections: set a lower one, or distribute the sets over several releases." (int .connectionsMax) (len .sets)) -}}
{{- end -}}
{{- with (.resources.limits | default dict).memory -}}
{{- $bytes := include "rmq.bytes" (dict "value" "roleProxy.resources.limits.memory" "quantity" (toString .)) | int64 -}}
{{- if gt (mul $all 40960) $bytes -}}
{{- fail (printf "roleProxy.connectionsMax is %d for each of %d sets, and %d connections need %dMi, but roleProxy.resources.limits.memory is %s: lower the one or raise the other." (int $proxy.connectionsMax) (len $proxy.sets) $all (add 1 (div (mul $all 40960) 1048576)) (toString .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.offsetManager" -}}
{{- with .Values.offsetManager -}}
{{- if .enabled -}}
{{- if not $.Values.admin.tokenSecret.name -}}
{{- fail "offsetManager.enabled is true, but admin.tokenSecret.name is blank: whoever reaches its port could change offsets." -}}
{{- end -}}
{{- if and (eq .store "embedded") (gt (int .replicas) 1) -}}
{{- fail (printf "offsetManager.replicas is %d, but offsetManager.store=embedded is a file of one manager alone: set offsetManager.store=etcd, or offsetManager.replicas=1." (int .replicas)) -}}
{{- end -}}
{{- if and (eq .store "etcd") (not .etcd.endpoints) -}}
{{- fail "offsetManager.store is etcd, but offsetManager.etcd.endpoints is empty: set its members as host:port; an etcd of its own keeps commits from delaying elections." -}}
{{- end -}}
{{- if and (eq .store "embedded") (or .etcd.endpoints .etcd.auth.existingSecret .etcd.tls.existingSecret) -}}
{{- fail "offsetManager.etcd is set, but offsetManager.store is embedded: nobody would use it." -}}
{{- end -}}
{{- if and .etcd.tls.clientCertificate (not .etcd.tls.existingSecret) -}}
{{- fail "offsetManager.etcd.tls.clientCertificate is true, but offsetManager.etcd.tls.existingSecret names no secret with the certificate." -}}
{{- end -}}
{{- if and (eq .follow "controllers") (not .controllers) (not $.Values.controller.enabled) -}}
{{- fail "offsetManager.follow is controllers, but the chart has none: set offsetManager.controllers to their HTTP ports, or offsetManager.follow=nameServers." -}}
{{- end -}}
{{- if or (and .controllers (ne .follow "controllers")) (and .nameServers (ne .follow "nameServers")) -}}
{{- fail (printf "offsetManager.follow is %s, but addresses of others are set: clear offsetManager.controllers or offsetManager.nameServers." .follow) -}}
{{- end -}}
{{- if and (eq .follow "none") (eq .repair "act") -}}
{{- fail "offsetManager.repair is act, but offsetManager.follow is none: controllers or NameServers tell who is master." -}}
{{- end -}}
{{- $needed := add (int .preStopSeconds) 30 -}}
{{- if lt (int .terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "offsetManager.terminationGracePeriodSeconds is %d, but preStopSeconds, 20 s for the last flush and 10 s for the close need %d." (int .terminationGracePeriodSeconds) (int $needed)) -}}
{{- end -}}
{{- if not .persistence.enabled -}}
{{- fail "offsetManager.persistence.enabled is false: readings and acknowledged commits are in a pod, and would be lost with it." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.console" -}}
{{- with .Values.console -}}
{{- if and (not .enabled) (or .peers .hosts .readTokenSecret.name .ingress.enabled) -}}
{{- fail "console.enabled is false, but console.peers, console.hosts, console.readTokenSecret.name or console.ingress.enabled is set: there would be no console." -}}
{{- end -}}
{{- with .ingress -}}
{{- if .enabled -}}
{{- if not .host -}}
{{- fail "console.ingress.enabled is true, but console.ingress.host is blank: set the name at which browsers open the console." -}}
{{- end -}}
{{- if and .tlsSecret .withoutTls -}}
{{- fail "console.ingress.tlsSecret and console.ingress.withoutTls are both set: decide for one." -}}
{{- end -}}
{{- if not (or .tlsSecret .withoutTls) -}}
{{- fail "console.ingress.tlsSecret is blank: every sign-in would send a token in clear text. Set it to a secret with tls.crt and tls.key, or console.ingress.withoutTls=true if something in front of the Ingress has TLS." -}}
{{- end -}}
{{- if not (or $.Values.admin.tokenSecret.name $.Values.console.readTokenSecret.name) -}}
{{- fail "console.ingress.enabled is true, but nobody could sign in: set admin.tokenSecret.name or console.readTokenSecret.name." -}}
{{- end -}}
{{- if ge (int .pod) (int $.Values.namesrv.replicas) -}}
{{- fail (printf "console.ingress.pod is %d, but namesrv.replicas is %d: the last one has number %d." (int .pod) (int $.Values.namesrv.replicas) (sub (int $.Values.namesrv.replicas) 1)) -}}
{{- end -}}
{{- if and $.Values.networkPolicy.enabled (not $.Values.networkPolicy.console) -}}
{{- fail "console.ingress.enabled needs 'console' of networkPolicy, as networkPolicy.enabled is true: name your Ingress controller, such as namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes server, values and own. A property has one place; a password has none but a secret. */}}
{{- define "rmq.checks.config" -}}
{{- $own := fromYaml .own -}}
{{- $free := list "bindAddress" "httpBindAddress" "logFormat" "partialFrameBytesMax" "responseBufferBytesMax" "queuedBytesMax" -}}
{{- $reserved := "^(store|clientTokenFile|controllerHttpAddr|brokerAccessAddresses|etcd.*|tls\\..*|useTLS|historyDir|httpAdminTokenFile|console(Peers|Hosts|ReadTokenFile)|scalingPolicyFile|roleAddressFile|memberPort|lookupPort|roleCheckPort|kubernetesSetsFile|kubernetesCredentialsDir)$" -}}
{{- $fixed := "^(listenPort|httpPort|kvConfigPath|configStorePath|controllerStorePath|storePath|controllerId|managerId|advertisedAddress|enableControllerInNamesrv)$" -}}
{{- range $key, $value := .values.config -}}
{{- if and (regexMatch "(?i)password|secret|accesskey" $key) (not (hasSuffix "Path" $key)) -}}
{{- fail (printf "%s.config.%s would stand in the values as plain text: use the existingSecret of tls, brokers.auth or etcd." $.server $key) -}}
{{- end -}}
{{- if regexMatch $fixed $key -}}
{{- fail (printf "%s.config.%s is set by the chart%s, and fixed: its services, probes and volumes rely on it." $.server $key (hasKey $own $key | ternary (printf " to %v" (get $own $key)) "")) -}}
{{- end -}}
{{- if or (and (hasKey $own $key) (not (has $key $free))) (regexMatch $reserved $key) -}}
{{- fail (printf "%s.config.%s is set by the chart: use the value of the chart that it follows from." $.server $key) -}}
{{- end -}}
{{- end -}}
{{- range .values.extraEnv -}}
{{- if and (regexMatch "(?i)password|secret|access_key$" .name) (hasKey . "value") -}}
{{- fail (printf "%s.extraEnv: %s would stand in the values as plain text: use valueFrom.secretKeyRef." $.server .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes server and values. Seconds that remain for the close itself: 10. */}}
{{- define "rmq.checks.stop" -}}
{{- with .values -}}
{{- $needed := add (int .preStopSeconds) (int .drainSeconds) 10 -}}
{{- if lt (int .terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d, but preStopSeconds and drainSeconds with 10 s for the close need %d." $.server (int .terminationGracePeriodSeconds) (int $needed)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rmq.checks.production" -}}
{{- with .Values -}}
{{- if lt (int .namesrv.replicas) 2 -}}
{{- fail "profile=production needs namesrv.replicas of 2 or more: while the only one restarts, nobody finds a broker." -}}
{{- end -}}
{{- if and .controller.enabled (ne .controller.store "etcd") -}}
{{- fail "profile=production needs controller.store=etcd: the embedded store is lost with its volume." -}}
{{- end -}}
{{- if and .controller.enabled (lt (int .controller.replicas) 2) -}}
{{- fail "profile=production needs controller.replicas of 2 or more: while the only one restarts, no master is replaced." -}}
{{- end -}}
{{- if .etcd.embedded.enabled -}}
{{- fail "profile=production needs etcd.endpoints: the embedded etcd is for trials." -}}
{{- end -}}
{{- if not .namesrv.persistence.enabled -}}
{{- fail "profile=production needs namesrv.persistence.enabled=true: order configurations of topics live there." -}}
{{- end -}}
{{- if not (and .namesrv.podDisruptionBudget.enabled .controller.podDisruptionBudget.enabled) -}}
{{- fail "profile=production needs namesrv.podDisruptionBudget.enabled=true and the same of controller." -}}
{{- end -}}
{{- if .offsetManager.enabled -}}
{{- if or (ne .offsetManager.store "etcd") (lt (int .offsetManager.replicas) 2) -}}
{{- fail "profile=production needs offsetManager.store=etcd and offsetManager.replicas of 2 or more: while the only one restarts, nobody commits." -}}
{{- end -}}
{{- if not .offsetManager.clientTokenSecret.name -}}
{{- fail "profile=production needs offsetManager.clientTokenSecret.name: clients must not have the token of operators." -}}
{{- end -}}
{{- end -}}
{{- if .roleProxy.enabled -}}
{{- if lt (int .roleProxy.replicas) 2 -}}
{{- fail "profile=production needs roleProxy.replicas of 2 or more: while the only one restarts, no client reaches a master." -}}
{{- end -}}
{{- if not .roleProxy.image.digest -}}
{{- fail "profile=production needs roleProxy.image.digest: all messages go through that image, and its tag moves." -}}
{{- end -}}
{{- end -}}
{{- if eq .image.tag "latest" -}}
{{- fail "profile=production needs an image.tag that does not move, or image.digest." -}}
{{- end -}}
{{- end -}}
{{- end -}}
