# syntax=docker/dockerfile:1
# The servers:       docker build -t rocketmq-control-plane:0.1.0 .
# The Spark jobs:    docker build -t rocketmq-control-plane-analytics:0.1.0 --target analytics .
# Run a controller:  docker run rocketmq-control-plane:0.1.0 rmq-controller -c ...
ARG PYTHON_VERSION=3.11
ARG DEBIAN_RELEASE=bookworm

# Debian and not Alpine: memory is given back by functions of glibc (serving/process/allocator.py).
FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/rocketmq
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY remoting/ remoting/
COPY serving/ serving/
COPY console/ console/
COPY history/ history/
COPY namesrv/ namesrv/
COPY controller/ controller/
COPY offsets/ offsets/
COPY store/ store/
COPY role_agent/ role_agent/
COPY rmq/ rmq/
COPY analytics/ analytics/
RUN /opt/rocketmq/bin/pip install '.[server,etcd]'

FROM build AS build-analytics
RUN /opt/rocketmq/bin/pip install '.[analytics]'

FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE} AS runtime
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rocketmq-control-plane" \
      org.opencontainers.image.description="NameServers and a controller of Apache RocketMQ" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A user with a name: Spark asks for it. The folder is what may be written to; in Kubernetes a volume lies over it.
RUN groupadd --gid 10001 rocketmq \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/rocketmq --create-home --shell /usr/sbin/nologin rocketmq
ENV PATH=/opt/rocketmq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/var/lib/rocketmq
WORKDIR /var/lib/rocketmq

FROM runtime AS analytics
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-analytics /opt/rocketmq /opt/rocketmq
# On loopback, and in UTC: see analytics/cli/session.py.
ENV SPARK_LOCAL_IP=127.0.0.1 TZ=UTC
USER 10001:10001
CMD ["rmq-analytics", "--help"]

# Last, so that it is what is built unless told otherwise.
FROM runtime AS servers
COPY --from=build /opt/rocketmq /opt/rocketmq
EXPOSE 9876 9880 9878 9881
# No shell around it: Python is process 1 and gets SIGTERM itself.
USER 10001:10001
CMD ["rmq-namesrv"]
