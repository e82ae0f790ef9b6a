{{/* The pod of both workloads. The place of its volume is the caller's: data is a volume of this name. */}}
{{- define "troupe.pod" -}}
{{- $external := include "troupe.external" . -}}
{{- $nats := .Values.store.nats -}}
metadata:
  labels:
    {{- include "troupe.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if .Values.configSecret.name }}
    # The chart cannot see when that Secret changes: restart the pods then (kubectl rollout restart).
    troupe.run/config: {{ printf "secret %s" .Values.configSecret.name | quote }}
    {{- else }}
    # Other settings are another pod: Kubernetes updates it.
    checksum/config: {{ include "troupe.config" . | sha256sum | quote }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "troupe.serviceAccount" . | quote }}
  automountServiceAccountToken: false
  # Variables such as TROUPE_PORT of a Service named troupe look like settings.
  enableServiceLinks: false
  # The drain, and 11 s for its end. There is no preStop hook: on SIGTERM the process is not ready any more, and serves on for
  # the time that proxies need to notice.
  terminationGracePeriodSeconds: {{ include "troupe.grace" . }}
  securityContext:
    runAsNonRoot: true
    {{- with int .Values.user }}
    runAsUser: {{ . }}
    runAsGroup: {{ . }}
    fsGroup: {{ . }}
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and $external (or .Values.topologySpread.zone .Values.topologySpread.node) }}
  topologySpreadConstraints:
    {{- range $key, $rule := dict "topology.kubernetes.io/zone" .Values.topologySpread.zone "kubernetes.io/hostname" .Values.topologySpread.node }}
    {{- if $rule }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: {{ $rule }}
      labelSelector:
        matchLabels:
          {{- include "troupe.selector" $ | nindent 10 }}
      # Pods of the update are spread among themselves.
      matchLabelKeys: [pod-template-hash]
    {{- end }}
    {{- end }}
  {{- end }}
  containers:
    - name: troupe
      image: {{ include "troupe.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        - name: TROUPE_CONFIG
          value: /etc/troupe/config/{{ if .Values.configSecret.name }}{{ .Values.configSecret.key }}{{ else }}troupe.yaml{{ end }}
        - name: TROUPE_LISTEN
          value: ":8080"
        - name: TROUPE_HEALTH_LISTEN
          value: ":9090"
        # A directory in the volume: that itself belongs to a group.
        - name: TROUPE_DATA
          value: /data/troupe
        # The image turns API keys on, which would win over the file. Empty, it says nothing.
        - name: TROUPE_API_KEYS
          value: ""
        - name: TROUPE_DRAIN_DELAY
          value: {{ int .Values.drain.delaySeconds }}s
        - name: TROUPE_DRAIN_WAIT
          value: {{ int .Values.drain.waitSeconds }}s
        {{- if .Values.tls.secretName }}
        - name: TROUPE_TLS_CERT
          value: /etc/troupe/tls/tls.crt
        - name: TROUPE_TLS_KEY
          value: /etc/troupe/tls/tls.key
        {{- end }}
        {{- if $external }}
        {{- if le (len (include "troupe.fullname" .)) 15 }}
        # troupe nodes shows the names of the pods. They have at most 32 characters, of which 17 are Kubernetes's own; where
        # there is no room for that, a pod has the name that it has made up and keeps in its volume.
        - name: TROUPE_NODE
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- end }}
        - name: TROUPE_NATS
          {{- if $nats.url }}
          value: {{ $nats.url | quote }}
          {{- else }}
          valueFrom:
            secretKeyRef:
              name: {{ $nats.urlSecret.name | quote }}
              key: {{ $nats.urlSecret.key | quote }}
          {{- end }}
        {{- if $nats.tokenSecret.name }}
        - name: TROUPE_NATS_TOKEN
          valueFrom:
            secretKeyRef:
              name: {{ $nats.tokenSecret.name | quote }}
              key: {{ $nats.tokenSecret.key | quote }}
        {{- end }}
        {{- if $nats.credsSecret.name }}
        - name: TROUPE_NATS_CREDS
          value: /etc/troupe/nats-creds/{{ $nats.credsSecret.key }}
        {{- end }}
        {{- if $nats.nkeySecret.name }}
        - name: TROUPE_NATS_NKEY
          value: /etc/troupe/nats-nkey/{{ $nats.nkeySecret.key }}
        {{- end }}
        {{- if $nats.caSecret.name }}
        - name: TROUPE_NATS_CA
          value: /etc/troupe/nats-ca/{{ $nats.caSecret.key }}
        {{- end }}
        {{- if $nats.certSecret.name }}
        - name: TROUPE_NATS_CERT
          value: /etc/troupe/nats-cert/tls.crt
        - name: TROUPE_NATS_KEY
          value: /etc/troupe/nats-cert/tls.key
        {{- end }}
        {{- with $nats.prefix }}
        - name: TROUPE_NATS_PREFIX
          value: {{ . | quote }}
        {{- end }}
        {{- with int $nats.replicas }}
        - name: TROUPE_NATS_REPLICAS
          value: {{ . | quote }}
        {{- end }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: {{ include "troupe.scheme" . }}
          containerPort: 8080
        - name: health
          containerPort: 9090
      startupProbe:
        httpGet:
          path: /healthz
          port: health
        {{- toYaml .Values.probes.startup | nindent 8 }}
      readinessProbe:
        httpGet:
          path: /readyz
          port: health
        {{- toYaml .Values.probes.readiness | nindent 8 }}
      livenessProbe:
        httpGet:
          path: /healthz
          port: health
        {{- toYaml .Values.probes.liveness | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        privileged: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities:
          drop: [ALL]
        seccompProfile:
          type: RuntimeDefault
      volumeMounts:
        - name: data
          mountPath: /data
        - name: config
          mountPath: /etc/troupe/config
          readOnly: true
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/troupe/tls
          readOnly: true
        {{- end }}
        {{- if $external }}
        {{- range $what, $secret := dict "creds" $nats.credsSecret "nkey" $nats.nkeySecret "ca" $nats.caSecret "cert" $nats.certSecret }}
        {{- if $secret.name }}
        - name: nats-{{ $what }}
          mountPath: /etc/troupe/nats-{{ $what }}
          readOnly: true
        {{- end }}
        {{- end }}
        {{- end }}
        {{- range .Values.secretMounts }}
        - name: secret-{{ .name }}
          mountPath: /etc/troupe/secrets/{{ .name }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      {{- if .Values.configSecret.name }}
      secret:
        secretName: {{ .Values.configSecret.name | quote }}
      {{- else }}
      configMap:
        name: {{ include "troupe.fullname" . | quote }}
      {{- end }}
    {{- if .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.secretName | quote }}
    {{- end }}
    {{- if $external }}
    # A name, a lock and the socket of operators; the store is on the NATS servers. It outlives the container, so that one that
    # is started again goes on with what it had.
    - name: data
      emptyDir:
        sizeLimit: 64Mi
    {{- range $what, $secret := dict "creds" $nats.credsSecret "nkey" $nats.nkeySecret "ca" $nats.caSecret "cert" $nats.certSecret }}
    {{- if $secret.name }}
    - name: nats-{{ $what }}
      secret:
        secretName: {{ $secret.name | quote }}
    {{- end }}
    {{- end }}
    {{- else if .Values.store.embedded.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .Values.store.embedded.existingClaim | quote }}
    {{- end }}
    {{- range .Values.secretMounts }}
    - name: secret-{{ .name }}
      secret:
        secretName: {{ .secretName | quote }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
