{{/* Volumes of Secrets, each with the path below /etc/lockgate-secrets where it is mounted: {volumes: [...]}. */}}

{{- define "lockgate.secrets" -}}
{{- $target := include "lockgate.target" . | fromYaml -}}
{{- $volumes := list -}}
{{- with $target.caSecret -}}
{{- if .name -}}
{{- $items := list (dict "key" .key "path" "ca.crt") -}}
{{- $volumes = append $volumes (dict "name" "target-ca" "path" "target" "secret" (dict "secretName" .name "defaultMode" 288 "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $one := include "lockgate.listeners" . | fromYaml -}}
{{- if $one.tls.enabled -}}
{{- $items := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") -}}
{{- $sources := list (dict "secret" (dict "name" $one.tls.secretName "items" $items)) -}}
{{- if ne $one.tls.clientAuth "none" -}}
{{- $ca := required (printf "listeners.%s.tls.clientCaSecret.name: clientAuth needs the CA of clients" $name) $one.tls.clientCaSecret.name -}}
{{- $items := list (dict "key" $one.tls.clientCaSecret.key "path" "client-ca.crt") -}}
{{- $sources = append $sources (dict "secret" (dict "name" $ca "items" $items)) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" (printf "listener-%s" $name) "path" (printf "listeners/%s" $name) "projected" (dict "defaultMode" 288 "sources" $sources)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.api.expose -}}
{{- $tls := required "api.tlsSecretName: REST is not exposed without TLS" .Values.api.tlsSecretName -}}
{{- $volumes = append $volumes (dict "name" "api-tls" "path" "api/tls" "secret" (dict "secretName" $tls "defaultMode" 288)) -}}
{{- $sources := list -}}
{{- range .Values.api.principals -}}
{{- $items := list (dict "key" .tokenSecret.key "path" .name) -}}
{{- $sources = append $sources (dict "secret" (dict "name" .tokenSecret.name "items" $items)) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "api-tokens" "path" "api/tokens" "projected" (dict "defaultMode" 288 "sources" $sources)) -}}
{{- end -}}
{{- range .Values.links.secrets -}}
{{- $volumes = append $volumes (dict "name" (printf "link-%s" .link) "path" (printf "links/%s" .link) "secret" (dict "secretName" .secretName "defaultMode" 288)) -}}
{{- end -}}
{{- if .Values.links.cas -}}
{{- $sources := list -}}
{{- range .Values.links.cas -}}
{{- $sources = append $sources (dict "secret" (dict "name" .secretName "items" (list (dict "key" .key "path" (printf "%s.crt" .name))))) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "link-cas" "path" "links/ca" "projected" (dict "defaultMode" 288 "sources" $sources)) -}}
{{- end -}}
{{- with .Values.links.keySecret -}}
{{- if .name -}}
{{- $volumes = append $volumes (dict "name" "link-key" "path" "link-key" "secret" (dict "secretName" .name "defaultMode" 288 "items" (list (dict "key" .key "path" "key")))) -}}
{{- end -}}
{{- end -}}
{{ toYaml (dict "volumes" $volumes) }}
{{- end -}}
