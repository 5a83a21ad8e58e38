# Waterclock in one image: `waterclock run` is the sidecar, `waterclock injector` and `waterclock redirect` are the other roles.
# `waterclock cache` is the only one that takes an image of its own, since it weighs more than all others.
# `make image` builds it; docs/image.md says how to do so elsewhere.
#
#   BASE       a Python 3.11 or newer on Debian or Ubuntu, of whatever place: python:3.13-slim
#   COMPILE   auto: the compiled wheel where a C compiler and Python.h are there or can be installed, else pure Python
#              yes:  the compiled wheel, or no image
#              no:   pure Python
#   LOCK       image: all roles but one. cache: `waterclock cache`, with what compares texts, and no other role on a cluster
#   PIP_INDEX_URL   another package index; what is fetched from it has to have the hashes of the lock files

ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
ARG PIP_INDEX_URL
WORKDIR /build

# The environment has no pip of its own, so the last stage has none either.
ARG LOCK=image
COPY requirements/image.txt requirements/cache.txt requirements/
RUN python3 -m venv tools \
 && python3 -m venv --without-pip /opt/waterclock \
 && tools/bin/pip --python /opt/waterclock/bin/python install --quiet --no-compile --only-binary=:all: \
      --require-hashes -r "requirements/$LOCK.txt"

ARG COMPILE=auto
COPY requirements/build.txt requirements/compile.txt requirements/
RUN can() { command -v cc >/dev/null && python3 -c \
      'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; } \
 && get() { apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev \
      && { can || apt-get install -y -qq --no-install-recommends python3-dev; }; } \
 && if [ "$COMPILE" = no ]; then with=build; \
    elif can || { echo "Looking for a C compiler and Python.h ..."; get >/tmp/get.log 2>&1; can; }; then with=compile; \
    elif [ "$COMPILE" = auto ]; then with=build; \
      echo "THE IMAGE IS PURE PYTHON: no C compiler or no Python.h here, and apt-get could not install them."; \
    else cat /tmp/get.log; echo "COMPILE=$COMPILE takes a C compiler and Python.h." >&2; exit 1; fi \
 && echo "$with" >with \
 && tools/bin/pip install --quiet --require-hashes -r "requirements/$with.txt"

# Bytecode that is never checked against its source: nothing can be written where the image runs.
COPY . .
RUN [ "$(cat with)" = build ] || export WATERCLOCK_COMPILE=1; \
    tools/bin/python -m hatchling build --target wheel --directory wheel \
 && tools/bin/pip --python /opt/waterclock/bin/python install --quiet --no-compile --no-deps --no-index wheel/*.whl \
 && /opt/waterclock/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/waterclock/lib


FROM ${BASE}
ARG BASE
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="Waterclock" \
      org.opencontainers.image.description="A Kubernetes sidecar that holds a whole agent job to one time budget" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"

# `waterclock redirect` needs iptables.
RUN command -v iptables-restore >/dev/null \
 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends iptables && rm -rf /var/lib/apt/lists/*; } \
 && groupadd --gid 2180 waterclock \
 && useradd --uid 2180 --gid 2180 --no-create-home --home-dir /var/lib/waterclock --shell /usr/sbin/nologin waterclock \
 && install -d -o 2180 -g 2180 /var/lib/waterclock \
 && install -d /etc/waterclock

COPY --from=build /opt/waterclock /opt/waterclock
ENV PATH=/opt/waterclock/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 2180:2180
WORKDIR /var/lib/waterclock
EXPOSE 10800 10801 10803
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["waterclock", "wait", "--timeout", "3s"]
ENTRYPOINT ["waterclock"]
CMD ["run"]
