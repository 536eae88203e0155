#!/usr/bin/env bash
# All tests; scripts/stages.py has the stages. `bash scripts/test.sh --help` lists the options: --only TEXT runs some
# stages, --ray and --torch also test the Python package on a Ray cluster and on PyTorch, and how quantized checkpoints
# load (200 MB and 4 GB of packages).
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/test.py" "$@"
