# memlint without Python around it: docker run --rm -v "$PWD:/work:ro" ghcr.io/OWNER/memlint check .
# Built from the wheel of the release: `python -m build --wheel` first, then `docker build .`
FROM python:3.13-slim

COPY dist/*.whl /tmp/wheel/
RUN pip install --no-cache-dir --root-user-action ignore /tmp/wheel/*.whl \
    && rm -r /tmp/wheel \
    && useradd --no-log-init --create-home memlint
USER memlint
WORKDIR /work
ENTRYPOINT ["memlint"]
CMD ["--help"]
