# The image has the program and the certificates that HTTPS needs, and nothing else: no shell, no Postgres. Time zones
# are in the program.
FROM golang:1.26 AS modules
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
COPY go.mod go.sum ./
RUN go mod download

# Which packages of other modules the program needs. The next stage builds them before it has the source, so that a
# change of the source does not build them anew. Cache mounts would do that, too, but only BuildKit has them.
FROM modules AS packages
COPY . .
RUN go list -deps -f '{{with .Module}}{{if not .Main}}{{$.ImportPath}}{{end}}{{end}}' . > /packages

FROM modules AS dependencies
COPY --from=packages /packages /packages
RUN go build $(cat /packages)

FROM dependencies AS build
COPY . .
# The build sees no .git, so it has to be told the version that nodes and logs show.
ARG VERSION=
RUN go build -ldflags "-X github.com/tasktable/tasktable/cmd.release=$VERSION" -o /tasktable .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tasktable /tasktable
USER 65532:65532
ENV TASKTABLE_HTTP_ADDR=:8080 TASKTABLE_PROBE_ADDR=:8081
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/tasktable", "health"]
ENTRYPOINT ["/tasktable"]
CMD ["serve"]
