# syntax=docker/dockerfile:1
# The gateway, and nothing else: no compiler, no pip, no tests, no JDK, and not root.
#
# Packages are pinned by hash (requirements/). The base is pinned by whoever builds, since its digest is another one with
# each of its security updates:
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm       # says sha256:...
#   docker build --build-arg BASE=python:3.11-slim-bookworm@sha256:... -t lockgate .
#
# How to run it, with a root file system that is read-only and without capabilities: docs/operate/image.md.

ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /src

# Packages first: this layer changes only with the lock file.
COPY requirements/ requirements/
RUN python -m venv /opt/lockgate \
 && /opt/lockgate/bin/pip install --require-hashes --only-binary :all: -r requirements/runtime.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.lock

COPY pyproject.toml README.md LICENSE ./
COPY configs/ configs/
COPY protocol/ protocol/
COPY gateway/ gateway/
COPY lockgate/ lockgate/
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/lockgate/bin/pip install --no-deps --no-index dist/*.whl \
 && /opt/lockgate/bin/pip check
# What a gateway never imports: of kafka-python all but its tables of messages (protocol/kafka_tables.py), and pip.
RUN cd /opt/lockgate/lib/python3*/site-packages \
 && find kafka -mindepth 1 -maxdepth 1 ! -name __init__.py ! -name protocol ! -name errors.py ! -name structs.py ! -name util.py \
      -exec rm -r {} + \
 && rm -rf pip pip-*.dist-info setuptools setuptools-*.dist-info pkg_resources _distutils_hack distutils-precedence.pth \
      /opt/lockgate/bin/pip* \
 && /opt/lockgate/bin/python -c "import gateway.runtime.process, gateway.cli.main, lockgate.command"

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.title="lockgate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}"
ENV PATH=/opt/lockgate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib \
    LOCKGATE_URL=http://127.0.0.1:8642
RUN groupadd --gid 10001 lockgate \
 && useradd --uid 10001 --gid lockgate --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin lockgate \
 && install --directory --owner lockgate --group lockgate --mode 0700 /var/lib/lockgate
COPY --from=build /opt/lockgate /opt/lockgate
# Nothing is installed here any more: no pip, nor what would bring it back.
RUN cd /usr/local/lib/python3.* \
 && rm -rf ensurepip site-packages/pip site-packages/pip-*.dist-info site-packages/setuptools* site-packages/wheel* \
      site-packages/pkg_resources site-packages/_distutils_hack site-packages/distutils-precedence.pth \
      idlelib lib2to3 tkinter turtledemo /usr/local/bin/pip* /usr/local/bin/idle* /usr/local/bin/2to3*

USER 10001:10001
WORKDIR /etc/lockgate
# 9292: bootstrap; brokers follow from 9293 on (listener.base_port). 8642: REST and metrics.
EXPOSE 9292 9293 9294 9295 8642
# SIGTERM: what is in flight is finished, then connections close.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["lockgate", "health"]
ENTRYPOINT ["lockgate"]
CMD ["serve", "--config", "/etc/lockgate/gateway.yaml"]
