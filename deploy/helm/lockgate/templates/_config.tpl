{{/* gateway.yaml, made of the values. No secret is in it: passwords come from the environment, keys from files. */}}

{{- define "lockgate.endpoint" -}}
host: 0.0.0.0
advertised_host: {{ .advertisedHost }}
bootstrap_port: {{ int .bootstrapPort }}
{{- if ne .addressing "port" }}
addressing: {{ .addressing }}
advertised_host_pattern: {{ .advertisedHostPattern }}
{{- end }}
{{- if ne .addressing "sni" }}
base_port: {{ int .basePort }}
{{- end }}
{{- with .advertisedPort }}
advertised_port: {{ int . }}
{{- end }}
{{- with .advertisedBasePort }}
advertised_base_port: {{ int . }}
{{- end }}
{{- with .protocol }}
protocol: {{ . }}
{{- end }}
identity: {{ .identity }}
{{- with .proxyProtocolFrom }}
proxy_protocol_from: {{ toJson . }}
{{- end }}
{{- if .tls.enabled }}
tls:
  certificate: /etc/lockgate-secrets/listeners/{{ .name }}/tls.crt
  key: /etc/lockgate-secrets/listeners/{{ .name }}/tls.key
  {{- if ne .tls.clientAuth "none" }}
  client_auth: {{ .tls.clientAuth }}
  client_ca: /etc/lockgate-secrets/listeners/{{ .name }}/client-ca.crt
  {{- end }}
{{- end }}
{{- end -}}

{{- define "lockgate.config.target" -}}
{{- $target := include "lockgate.target" . | fromYaml -}}
bootstrap.servers: {{ include "lockgate.bootstrap" . }}
security.protocol: {{ $target.securityProtocol }}
{{- if $target.caSecret.name }}
ssl.ca.location: /etc/lockgate-secrets/target/ca.crt
{{- end }}
{{- if $target.passwordSecret.name }}
sasl.mechanism: {{ $target.saslMechanism }}
sasl.username: {{ $target.username | quote }}
sasl.password: ${TARGET_PASSWORD}
{{- end }}
{{- with $target.properties }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lockgate.config.api" -}}
port: {{ int .Values.api.port }}
token_file: /var/lib/lockgate/api.token
{{- if .Values.api.expose }}
host: 0.0.0.0
allowed_hosts: {{ concat (list (printf "%s-api.%s.svc" (include "lockgate.fullname" .) .Release.Namespace) (printf "%s-api.%s.svc.%s" (include "lockgate.fullname" .) .Release.Namespace .Values.clusterDomain) "localhost") .Values.api.allowedHosts | toJson }}
tls:
  certificate: /etc/lockgate-secrets/api/tls/tls.crt
  key: /etc/lockgate-secrets/api/tls/tls.key
principals:
  {{- range required "api.principals: whoever may ask; REST is not exposed without" .Values.api.principals }}
  - {name: {{ .name | quote }}, role: {{ .role }}, token_file: {{ printf "/etc/lockgate-secrets/api/tokens/%s" .name }}}
  {{- end }}
{{- else }}
host: 127.0.0.1
{{- end }}
{{- end -}}

{{- define "lockgate.config" -}}
{{- $listeners := include "lockgate.listeners" . | fromYaml -}}
{{- $further := dict -}}
{{- range $name, $one := $listeners -}}
{{- $_ := set $one "name" $name -}}
{{- if ne $name "internal" -}}{{- $_ := set $further $name (include "lockgate.endpoint" $one | fromYaml) -}}{{- end -}}
{{- end -}}
{{- $links := dict "files" "/etc/lockgate-secrets/links" "hosts" .Values.links.hosts -}}
{{- if .Values.links.keySecret.name -}}{{- $_ := set $links "key_file" "/etc/lockgate-secrets/link-key/key" -}}{{- end -}}
{{- $settings := dict
    "target" (include "lockgate.config.target" . | fromYaml)
    "workers" (int .Values.workers)
    "fleet" (dict "name" (printf "${POD_NAME}.%s" .Release.Namespace) "peer_host" "${POD_IP}" "peer_port" (int .Values.peerPort))
    "listener" (include "lockgate.endpoint" $listeners.internal | fromYaml)
    "listeners" $further
    "api" (include "lockgate.config.api" . | fromYaml)
    "management" (dict "host" "0.0.0.0" "port" (int .Values.management.port))
    "links" $links
    "log" (dict "level" .Values.log.level "format" "json") -}}
{{ mergeOverwrite $settings (deepCopy .Values.config) | toYaml }}
{{- end -}}
