# The command holdfast alone, for a user who is not root:
#
#   docker build -t holdfast https://github.com/holdfast-go/holdfast.git
#   docker run --rm holdfast status --store postgres://db/app
#
# The server of locks, for the other containers of a network. The folder has the auth file
# and the TLS files, which user 65532 can read:
#
#   docker run -d -p 4653:4653 -v /etc/holdfast:/etc/holdfast:ro -e HOLDFAST_STORE=postgres://db/app holdfast serve \
#     --listen :4653 --host locks --auth /etc/holdfast/auth.json --tls-cert /etc/holdfast/tls.pem --tls-key /etc/holdfast/tls.key
#
# An image of your own gets it with COPY --from=holdfast /usr/bin/holdfast /usr/bin/.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 GOWORK=off go -C cmd/holdfast build -trimpath -ldflags='-s -w' -o /out/holdfast .
RUN mkdir -p /out/state

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/holdfast /usr/bin/holdfast
COPY --from=build --chown=65532:65532 /out/state /state
ENV PATH=/usr/bin
ENV XDG_STATE_HOME=/state
USER 65532:65532
ENTRYPOINT ["/usr/bin/holdfast"]
