# The image has the program and the certificates that HTTPS needs, and nothing else: no shell, no Postgres. Time zones
# are in the program.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The build sees no .git, so it has to be told the version that nodes and logs show.
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X github.com/tasktable/tasktable/cmd.release=$VERSION" -o /tasktable .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tasktable /tasktable
USER 65532:65532
ENV TASKTABLE_HTTP_ADDR=:8080 TASKTABLE_PROBE_ADDR=:8081
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/tasktable", "health"]
ENTRYPOINT ["/tasktable"]
CMD ["serve"]
