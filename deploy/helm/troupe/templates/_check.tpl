{{/*
What cannot work, as sentences: each says what is wrong and what to set. All are told at once.
*/}}
{{- define "troupe.check" -}}
{{- $faults := list -}}
{{- $external := include "troupe.external" . -}}
{{- $name := include "troupe.fullname" . -}}
{{- $config := .Values.config -}}
{{- $nats := .Values.store.nats -}}

{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- $faults = append $faults (printf "the name %q cannot be that of a Service: set fullnameOverride to one that begins with a letter and has a-z, 0-9 and - alone" $name) -}}
{{- end -}}

{{- /* The store. */ -}}
{{- if not $external -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- $faults = append $faults (printf "replicas is %d and the store is embedded, which is one process's own: leave replicas at 0 or 1, or set store.kind to external and store.nats.url" (int .Values.replicas)) -}}
{{- end -}}
{{- if .Values.autoscaling.enabled -}}
{{- $faults = append $faults "autoscaling needs a store that several processes share: set store.kind to external and store.nats.url, or autoscaling.enabled to false" -}}
{{- end -}}
{{- if or $nats.url $nats.urlSecret.name $nats.credsSecret.name $nats.nkeySecret.name $nats.tokenSecret.name $nats.caSecret.name $nats.certSecret.name $nats.prefix $nats.replicas -}}
{{- $faults = append $faults "store.nats has no effect with the embedded store: set store.kind to external, or leave store.nats as it is" -}}
{{- end -}}
{{- if and .Values.store.embedded.existingClaim .Values.store.embedded.storageClass -}}
{{- $faults = append $faults "store.embedded.existingClaim names a volume that is there, so that store.embedded.storageClass has no effect: set one of them" -}}
{{- end -}}
{{- else -}}
{{- if not (or $nats.url $nats.urlSecret.name) -}}
{{- $faults = append $faults "store.kind is external and there is no address of NATS servers: set store.nats.url, or store.nats.urlSecret.name" -}}
{{- end -}}
{{- if and $nats.url $nats.urlSecret.name -}}
{{- $faults = append $faults "store.nats.url and store.nats.urlSecret exclude each other: set one of them" -}}
{{- end -}}
{{- if regexMatch "//[^/,]*:[^/,]*@" $nats.url -}}
{{- $faults = append $faults "store.nats.url has a password, which anybody could read who may see the Deployment: put the URL into a Secret, and name that in store.nats.urlSecret" -}}
{{- end -}}
{{- if gt (len (compact (list $nats.credsSecret.name $nats.nkeySecret.name $nats.tokenSecret.name))) 1 -}}
{{- $faults = append $faults "store.nats.credsSecret, nkeySecret and tokenSecret are three ways to log in: set one of them" -}}
{{- end -}}
{{- if get $config "sync" -}}
{{- $faults = append $faults "config.sync has no effect with store.kind external: set sync_interval in the configuration of the NATS servers" -}}
{{- end -}}
{{- end -}}

{{- /* Settings that the chart makes. */ -}}
{{- range $setting, $instead := dict
  "listen" "the pods listen on port 8080: set service.port for the port of the Service"
  "health-listen" "the probes are on port 9090 of the pods"
  "data" "the chart mounts it: see store.embedded"
  "memory" "choose where data lies by store.kind"
  "node" "each pod has a name of its own"
  "tls-cert" "set tls.secretName"
  "tls-key" "set tls.secretName"
  "drain-delay" "set drain.delaySeconds, by which the time until Kubernetes kills the process is computed"
  "drain-wait" "set drain.waitSeconds, by which the time until Kubernetes kills the process is computed"
  "nats" "set store.nats.url or store.nats.urlSecret"
  "nats-creds" "set store.nats.credsSecret"
  "nats-nkey" "set store.nats.nkeySecret"
  "nats-token" "set store.nats.tokenSecret: a ConfigMap is no place for secrets"
  "nats-ca" "set store.nats.caSecret"
  "nats-cert" "set store.nats.certSecret"
  "nats-key" "set store.nats.certSecret"
  "nats-prefix" "set store.nats.prefix"
  "nats-replicas" "set store.nats.replicas"
  "nats-listen" "one process that keeps the store of all is not for Kubernetes: set store.kind to external"
-}}
{{- if hasKey $config $setting -}}
{{- $faults = append $faults (printf "config.%s is the chart's own affair: %s" $setting $instead) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "TROUPE_API_KEYS" "TROUPE_CONFIG" "TROUPE_LISTEN" "TROUPE_HEALTH_LISTEN" "TROUPE_DATA" "TROUPE_MEMORY" "TROUPE_NODE" "TROUPE_TLS_CERT" "TROUPE_TLS_KEY" "TROUPE_DRAIN_DELAY" "TROUPE_DRAIN_WAIT" "TROUPE_NATS" "TROUPE_NATS_CREDS" "TROUPE_NATS_NKEY" "TROUPE_NATS_TOKEN" "TROUPE_NATS_CA" "TROUPE_NATS_CERT" "TROUPE_NATS_KEY" "TROUPE_NATS_PREFIX" "TROUPE_NATS_REPLICAS" "TROUPE_NATS_LISTEN") -}}
{{- $faults = append $faults (printf "extraEnv sets %s, which is the chart's own affair: values.yaml says what to set in its place" .name) -}}
{{- end -}}
{{- end -}}

{{- /* Who may call. */ -}}
{{- $auth := default dict (get $config "auth") -}}
{{- $issuers := or (get $config "auth-issuer") (get $auth "issuers") -}}
{{- if .Values.configSecret.name -}}
{{- if ne (toJson $config) (toJson (dict "api-keys" true "log-format" "json")) -}}
{{- $faults = append $faults "configSecret has the whole file of settings, so that config has no effect: leave config as it is, or configSecret.name empty" -}}
{{- end -}}
{{- else -}}
{{- if not (or $issuers (get $config "api-keys") (get $config "allow-anonymous")) -}}
{{- $faults = append $faults "whoever reaches the Service could call without a token: set config.api-keys to true, name issuers in config.auth, or set config.allow-anonymous to true if that is meant" -}}
{{- end -}}
{{- if and $issuers (not (get $config "public-url")) -}}
{{- $faults = append $faults "config.public-url is needed beside an issuer: tokens are made for the URL under which clients reach this server, such as https://mcp.example.com" -}}
{{- end -}}
{{- range $issuer := default list (get $auth "issuers") -}}
{{- if get (default dict (get $issuer "introspection")) "client-secret" -}}
{{- $faults = append $faults "config.auth has a client-secret, which anybody could read who may see the ConfigMap: put it into a Secret, mount that by secretMounts, and name the file in client-secret-file" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* How clients come. */ -}}
{{- if .Values.httpRoute.enabled -}}
{{- if not .Values.httpRoute.parentRefs -}}
{{- $faults = append $faults "httpRoute belongs to no Gateway: set httpRoute.parentRefs, such as [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- if and (not .Values.httpRoute.hostnames) (not (get $config "allow-host")) (not .Values.configSecret.name) -}}
{{- $faults = append $faults "httpRoute has no hostnames, and the server answers only names that it knows: set httpRoute.hostnames, or config.allow-host" -}}
{{- end -}}
{{- if and .Values.tls.secretName (not .Values.httpRoute.backendTLS.hostname) -}}
{{- $faults = append $faults "the pods serve https, which a Gateway speaks to them only if it is told whose certificates they have: set httpRoute.backendTLS.hostname, or leave tls.secretName empty and have the Gateway serve https" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.backendTLS.hostname (not (and .Values.httpRoute.enabled .Values.tls.secretName)) -}}
{{- $faults = append $faults "httpRoute.backendTLS has no effect without httpRoute.enabled and tls.secretName" -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- if not .Values.ingress.hosts -}}
{{- $faults = append $faults "ingress has no hosts: set ingress.hosts, such as [mcp.example.com]" -}}
{{- end -}}
{{- if and .Values.tls.secretName (not .Values.ingress.annotations) -}}
{{- $faults = append $faults "the pods serve https, and Ingress controllers speak http to them unless an annotation says otherwise: set ingress.annotations as yours wants it, or leave tls.secretName empty" -}}
{{- end -}}
{{- end -}}
{{- $wild := false -}}
{{- range concat (ternary .Values.httpRoute.hostnames list .Values.httpRoute.enabled) (ternary .Values.ingress.hosts list .Values.ingress.enabled) -}}
{{- if hasPrefix "*." . -}}{{- $wild = true -}}{{- end -}}
{{- end -}}
{{- if and $wild (not (get $config "allow-host")) (not .Values.configSecret.name) -}}
{{- $faults = append $faults "a name with * matches no name that the server could know: set config.allow-host to the names that clients use" -}}
{{- end -}}
{{- if and .Values.service.loadBalancerSourceRanges (ne .Values.service.type "LoadBalancer") -}}
{{- $faults = append $faults "service.loadBalancerSourceRanges has no effect unless service.type is LoadBalancer: see networkPolicy.from" -}}
{{- end -}}
{{- if and .Values.service.externalTrafficPolicy (eq .Values.service.type "ClusterIP") -}}
{{- $faults = append $faults "service.externalTrafficPolicy has no effect while service.type is ClusterIP" -}}
{{- end -}}

{{- /* How many there are. */ -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- $most := $budget.maxUnavailable | toString -}}
{{- $least := $budget.minAvailable | toString -}}
{{- if and $external $budget.enabled -}}
{{- if and $least $most -}}
{{- $faults = append $faults "podDisruptionBudget.maxUnavailable and minAvailable exclude each other: set one of them, and the other to an empty text" -}}
{{- else if not (or $least $most) -}}
{{- $faults = append $faults "podDisruptionBudget says nothing: set maxUnavailable or minAvailable, or enabled to false" -}}
{{- end -}}
{{- if has $most (list "0" "0%") -}}
{{- $faults = append $faults "podDisruptionBudget.maxUnavailable is 0: no node with one of these pods could ever be drained" -}}
{{- end -}}
{{- $fewest := int (include "troupe.fewest" .) -}}
{{- $stops := false -}}
{{- if hasSuffix "%" $least -}}
{{- /* Kubernetes rounds up. */ -}}
{{- $stops = ge (div (add (mul (int (trimSuffix "%" $least)) $fewest) 99) 100 | int) $fewest -}}
{{- else if $least -}}
{{- $stops = ge (int $least) $fewest -}}
{{- end -}}
{{- if $stops -}}
{{- $faults = append $faults (printf "podDisruptionBudget.minAvailable is %s of %d pods: no node with one of them could ever be drained" $least $fewest) -}}
{{- end -}}
{{- end -}}
{{- if .Values.autoscaling.enabled -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- $faults = append $faults "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- if .Values.replicas -}}
{{- $faults = append $faults "replicas has no effect with autoscaling: leave it at 0, and set autoscaling.minReplicas and maxReplicas" -}}
{{- end -}}
{{- if not (get (default dict .Values.resources.requests) "cpu") -}}
{{- $faults = append $faults "autoscaling measures the use of the CPU against the request: set resources.requests.cpu" -}}
{{- end -}}
{{- end -}}

{{- /* The pods. */ -}}
{{- if not (get (default dict .Values.resources.limits) "memory") -}}
{{- $faults = append $faults "resources.limits.memory is needed: without it a process takes the whole node's memory for its own, and Kubernetes ends it for that" -}}
{{- end -}}
{{- $mounted := dict -}}
{{- range .Values.secretMounts -}}
{{- if hasKey $mounted .name -}}
{{- $faults = append $faults (printf "secretMounts has the name %s twice" .name) -}}
{{- end -}}
{{- $_ := set $mounted .name true -}}
{{- end -}}
{{- if and .Values.networkPolicy.egress.enabled (not .Values.networkPolicy.enabled) -}}
{{- $faults = append $faults "networkPolicy.egress has no effect while networkPolicy.enabled is false" -}}
{{- end -}}

{{- if $faults -}}
{{- fail (printf "these values cannot work:\n- %s" (join "\n- " $faults)) -}}
{{- end -}}
{{- end -}}
