# A demonstration: the service and the tmux servers of one member, in one container
# (docs/deployment.md says why the host's own can't be watched from here).
FROM node:24-bookworm-slim

RUN apt-get update \
  && apt-get install --yes --no-install-recommends perl-base tmux \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --create-home --shell /bin/bash demo \
  && install -d -m 0700 -o demo -g demo /var/lib/muxwarden

WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The image has Node 24, and compose brings PostgreSQL: neither is wanted a second time.
RUN npm ci --omit=dev --omit=optional
COPY . .

USER demo
ENV NODE_ENV=production \
  LANG=C.UTF-8 \
  MUXWARDEN_HOST=0.0.0.0 \
  MUXWARDEN_PUBLIC_URL=http://localhost:4000 \
  MUXWARDEN_STATE_DIR=/var/lib/muxwarden
VOLUME /var/lib/muxwarden
EXPOSE 4000
HEALTHCHECK --interval=10s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:4000/health').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["sh", "-c", "cd && tmux new-session -d -s demo && cd /app && exec node bin/muxwarden.js serve"]
