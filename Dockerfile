# The image of `workbench serve` and the scheduled report (docs/start/kubernetes.md). Settings and secrets come from outside:
# a workbench.toml mounted into /home/workbench/.config/lag-workbench, passwords as environment variables that it names.
#   docker build -t registry.example/workbench .
FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/workbench
ENV PATH=/opt/workbench/bin:$PATH
# As `make setup` does it: by the locks, whose hashes are checked; the Java comes by pip as well.
RUN pip install -q --require-hashes --only-binary :all: -r .ci/requirements-build.lock
RUN pip install -q --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation --config-settings="--build-option=--compression=stored" -r .ci/requirements.lock
RUN pip install -q --require-hashes -r .ci/requirements-java.lock
RUN pip install -q --no-deps --no-build-isolation .

FROM python:3.11-slim
COPY --from=build /opt/workbench /opt/workbench
# A pod lives for one report: it would build Spark's archive and never use it.
ENV PATH=/opt/workbench/bin:$PATH WORKBENCH_SPARK_ARCHIVE=off
RUN useradd --create-home --uid 10001 workbench && install -d -o workbench /reports
USER 10001
WORKDIR /home/workbench
CMD ["workbench", "--help"]
