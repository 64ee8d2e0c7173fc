{{/* Names, labels, and what is put together from several values. */}}

{{- define "lockgate.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "lockgate.selector" -}}
app.kubernetes.io/name: lockgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lockgate.labels" -}}
{{ include "lockgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "lockgate.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}{{ $image.repository }}@{{ $image.digest }}
{{- else -}}{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{- define "lockgate.serviceAccount" -}}
{{- default (include "lockgate.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The listeners' values as YAML, each over the defaults of `internal`: so `external` names what is different. */}}
{{- define "lockgate.listeners" -}}
{{- $found := dict -}}
{{- range $name, $given := .Values.listeners -}}
{{- $one := mergeOverwrite (deepCopy $.Values.listenerDefaults) (deepCopy (default dict $given)) -}}
{{- $host := default (printf "%s-%s.%s.svc.%s" (include "lockgate.fullname" $) $name $.Release.Namespace $.Values.clusterDomain) $one.advertisedHost -}}
{{- $_ := set $one "advertisedHost" $host -}}
{{- $pattern := printf "%s-%s-$(nodeId).%s.svc.%s" (include "lockgate.fullname" $) $name $.Release.Namespace $.Values.clusterDomain -}}
{{- $pattern = ternary "" (default $pattern $one.advertisedHostPattern) (eq $one.addressing "port") -}}
{{- $_ := set $one "advertisedHostPattern" $pattern -}}
{{- $_ := set $one "wildcard" (ternary "" (regexReplaceAll "^[^.]*" $pattern "*") (eq $pattern "")) -}}
{{- $_ := set $one "port" (default (int $one.bootstrapPort) (int $one.advertisedPort)) -}}
{{- $_ := set $one.tls "secretName" (default (printf "%s-%s-tls" (include "lockgate.fullname" $) $name) $one.tls.secretName) -}}
{{- $_ := set $found $name $one -}}
{{- end -}}
{{ toYaml $found }}
{{- end -}}

{{/* The bootstrap servers of the target: as given, as the Kafka resource says, or by Strimzi's names. */}}
{{- define "lockgate.bootstrap" -}}
{{- $ref := .Values.strimzi.kafkaRef -}}
{{- if .Values.target.bootstrapServers -}}
{{- if $ref.name -}}{{ fail "target.bootstrapServers and strimzi.kafkaRef.name: give one of them" }}{{- end -}}
{{ .Values.target.bootstrapServers }}
{{- else if $ref.name -}}
{{- $namespace := default .Release.Namespace $ref.namespace -}}
{{- $found := "" -}}
{{- range $version := list "v1" "v1beta2" -}}
{{- $kafka := lookup (printf "kafka.strimzi.io/%s" $version) "Kafka" $namespace $ref.name -}}
{{- range (dig "status" "listeners" list (default dict $kafka)) -}}
{{- if and (eq (default "" .name) $ref.listener) .bootstrapServers }}{{ $found = .bootstrapServers }}{{ end -}}
{{- end -}}
{{- end -}}
{{- default (printf "%s-kafka-bootstrap.%s.svc.%s:%d" $ref.name $namespace .Values.clusterDomain (int $ref.port)) $found -}}
{{- else -}}
{{ fail "target.bootstrapServers: name the target cluster (or strimzi.kafkaRef.name)" }}
{{- end -}}
{{- end -}}

{{/* The target's login and CA as YAML: {protocol, mechanism, username, passwordSecret, caSecret}. */}}
{{- define "lockgate.target" -}}
{{- $target := deepCopy .Values.target -}}
{{- $user := .Values.strimzi.kafkaUser.name -}}
{{- $tls := and .Values.strimzi.kafkaRef.name .Values.strimzi.kafkaRef.tls -}}
{{- if $user -}}
{{- $_ := set $target "saslMechanism" (default "SCRAM-SHA-512" $target.saslMechanism) -}}
{{- $_ := set $target "username" $user -}}
{{- $_ := set $target "passwordSecret" (dict "name" $user "key" "password") -}}
{{- end -}}
{{- if and $tls (not $target.caSecret.name) -}}
{{- $_ := set $target "caSecret" (dict "name" (printf "%s-cluster-ca-cert" .Values.strimzi.kafkaRef.name) "key" "ca.crt") -}}
{{- end -}}
{{- $sasl := ternary "SASL_" "" (ne $target.passwordSecret.name "") -}}
{{- $plain := ternary "SSL" "PLAINTEXT" (not (not $tls)) -}}
{{- $_ := set $target "securityProtocol" (default (printf "%s%s" $sasl $plain) $target.securityProtocol) -}}
{{ toYaml $target }}
{{- end -}}

{{/* Where the command inside the pod finds REST. */}}
{{- define "lockgate.url" -}}
{{ ternary "https://localhost" "http://127.0.0.1" .Values.api.expose }}:{{ .Values.api.port }}
{{- end -}}

{{/* What all Services of a listener have: `list $ LISTENER`. */}}
{{- define "lockgate.service" -}}
{{- $one := index . 1 -}}
type: {{ $one.service.type }}
{{- if ne $one.service.type "ClusterIP" }}
externalTrafficPolicy: {{ $one.service.externalTrafficPolicy }}
{{- end }}
{{- with $one.service.loadBalancerSourceRanges }}
loadBalancerSourceRanges: {{ toJson . }}
{{- end }}
selector: {{- include "lockgate.selector" (index . 0) | nindent 2 }}
{{- end -}}
