# syntax=docker/dockerfile:1
# Images of kernel-evo: docker build --target service | worker-cpu | worker-cuda .
# docs/guides/deploy/docker.md says how to run them, docker-compose.yml runs them all.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY evo evo
COPY templates templates
COPY workers workers
COPY api api
COPY db db
RUN python -m venv /opt/kernel-evo \
    && /opt/kernel-evo/bin/pip install --no-cache-dir -c constraints.txt .

# CUDA=12 suits drivers from 525 on, CUDA=13 those from 580 on
FROM build AS build-cuda
ARG CUDA=12
RUN /opt/kernel-evo/bin/pip install --no-cache-dir -c constraints.txt ".[cuda${CUDA}]"

FROM python:3.11-slim-bookworm AS base
RUN groupadd --gid 10001 evo \
    && useradd --uid 10001 --gid evo --create-home evo \
    && install -d -o evo -g evo \
        /var/lib/kernel-evo /var/cache/kernel-evo /run/kernel-evo/admin /run/kernel-evo/workers/cpu \
        /run/kernel-evo/workers/cuda
ENV PATH=/opt/kernel-evo/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /home/evo
ENTRYPOINT ["kernel-evo"]

FROM base AS service
COPY --from=build /opt/kernel-evo /opt/kernel-evo
ENV KERNEL_EVO_DB=/var/lib/kernel-evo/kernel-evo.db \
    KERNEL_EVO_ARTEFACTS=/var/lib/kernel-evo/artefacts \
    KERNEL_EVO_LOG_FORMAT=json
USER 10001
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:8765/api/v1/ready', timeout=4)"]
CMD ["serve", "--host", "0.0.0.0"]

# Kernels are compiled where they are measured: the CPU worker needs a C compiler.
FROM base AS worker-cpu
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/kernel-evo /opt/kernel-evo
USER 10001
CMD ["worker", "--kind", "cpu", "--data", "/var/lib/kernel-evo", "--cache", "/var/cache/kernel-evo"]

# NVRTC, which compiles CUDA, comes with the Python packages, and the driver from the host: no compiler in here.
FROM base AS worker-cuda
COPY --from=build-cuda /opt/kernel-evo /opt/kernel-evo
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUPY_CACHE_DIR=/var/cache/kernel-evo/cupy \
    CUDA_CACHE_PATH=/var/cache/kernel-evo/nv
USER 10001
CMD ["worker", "--kind", "cuda", "--data", "/var/lib/kernel-evo", "--cache", "/var/cache/kernel-evo"]
