# The operator's image. Build: docker build -t REGISTRY/parkade:TAG .
# PYTHON_IMAGE is any image with python3 >= 3.11 and its venv module.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY requirements/build.txt requirements/runtime.txt requirements/
# Two environments: `tools` builds and never ships; `/opt/parkade` ships and holds no pip.
RUN python3 -m venv tools \
 && tools/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/build.txt \
 && python3 -m venv --without-pip /opt/parkade \
 && tools/bin/python -m pip --python /opt/parkade/bin/python install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN tools/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels . \
 && tools/bin/python -m pip --python /opt/parkade/bin/python install --no-cache-dir --no-deps wheels/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="parkade" \
      org.opencontainers.image.description="Sizes vLLM deployments on Kubernetes from the traffic they really get" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/parkade /opt/parkade
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/opt/parkade/bin/parkade"]
CMD ["run"]
