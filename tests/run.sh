#!/usr/bin/env bash
# Sets up an environment in .venv and runs every check, on all three backends.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 -m venv .venv
# Pinned first: an open range may bring several GB of CUDA packages.
.venv/bin/pip install --quiet torch==2.13.0
.venv/bin/pip install --quiet -e ".[test,jax,torch]"

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy

export TF_CPP_MIN_LOG_LEVEL=3
# Two test processes; threads of their own would only get in each other's way.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1
for backend in tensorflow jax torch; do
    echo "== $backend =="
    paths=(tests/data tests/layers tests/fit tests/build)
    # The numeric core and the documents do not depend on the backend.
    if [ "$backend" = tensorflow ]; then paths=(tests); fi
    KERAS_BACKEND=$backend .venv/bin/python -m pytest -q -n 2 --dist loadfile "${paths[@]}"
done
