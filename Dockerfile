# The server of a model in a container; docs/serving.md says how to run it.
#   docker build -t gainful .
ARG BASE=python:3.11-slim
FROM ${BASE}

# The versions that gainful is tested with, from the package index, and nothing from anywhere else.
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE hatch_build.py ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt ".[serve]" && rm -rf /build

# Compiled code is kept where the user may write: another kind of processor compiles its own on the first start.
ENV NUMBA_CACHE_DIR=/var/cache/gainful
RUN useradd --create-home gainful && mkdir -p /models "$NUMBA_CACHE_DIR" && chown gainful /models "$NUMBA_CACHE_DIR"
USER gainful
WORKDIR /models
RUN gainful warm

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]

# Beyond loopback the server wants a token: GAINFUL_TOKEN, or --token-file.
ENTRYPOINT ["gainful", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model.gainful"]
