{{- define "parkade.name" -}}
{{- printf "%s" (ternary .Release.Name (printf "%s-parkade" .Release.Name) (contains "parkade" .Release.Name)) | trunc 63 | trimSuffix "-" -}}
{{- end }}
{{- define "parkade.selectorLabels" -}}
app.kubernetes.io/name: parkade
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "parkade.labels" -}}
{{ include "parkade.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- define "parkade.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "parkade.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}
{{- define "parkade.image" -}}
{{- printf "%s:%s" (required "image.repository: nothing is published yet; build the image from the Dockerfile, push it, and name it here" .Values.image.repository) (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end }}
